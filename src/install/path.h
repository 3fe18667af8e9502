// The way to a value in a configuration: the keys from the top.
#ifndef CGPU_INSTALL_PATH_H_
#define CGPU_INSTALL_PATH_H_

#include <string>
#include <vector>

namespace cgpu::install {

using Path = std::vector<std::string>;

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_PATH_H_
