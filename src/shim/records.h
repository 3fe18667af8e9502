// The records of one part of a shim's state (base/state.h) as a byte string of its own.
#ifndef CGPU_SHIM_RECORDS_H_
#define CGPU_SHIM_RECORDS_H_

#include <string>

#include "base/result.h"
#include "base/state.h"

namespace cgpu::shim {

// Returns the records that `part` saves.
template <class Part>
std::string RecordsOf(const Part& part) {
  StateWriter writer;
  part.Save(writer);
  return writer.Take();
}

// Loads `part` from such records, which may be anything.
template <class Part>
Result<> LoadRecords(const std::string& bytes, Part& part) {
  StateReader reader(bytes);
  CGPU_TRY(part.Load(reader));
  return reader.Finish();
}

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RECORDS_H_
