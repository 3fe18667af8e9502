// The files of the page, as `make page` built them (page/). A build without them has one plain page
// that says so.
#ifndef CGPU_PAGE_ASSETS_H_
#define CGPU_PAGE_ASSETS_H_

#include <string_view>

namespace cgpu::page {

struct Asset {
  std::string_view path;  // "/" is the page
  std::string_view type;  // of its content
  std::string_view bytes;
};

// Returns the file at a path; null: there is none. Pure.
[[nodiscard]] const Asset* FindAsset(std::string_view path);

}  // namespace cgpu::page

#endif  // CGPU_PAGE_ASSETS_H_
