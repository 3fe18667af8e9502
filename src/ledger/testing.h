// Handles of a client and of its objects, for the tests.
#ifndef CGPU_LEDGER_TESTING_H_
#define CGPU_LEDGER_TESTING_H_

#include "ledger/ledger.h"

namespace cgpu::ledger {

inline constexpr Handle kClient = 0xc1d00001;
inline constexpr Handle kDevice = 0x80;
inline constexpr Handle kMemory = 0x40;

}  // namespace cgpu::ledger

#endif  // CGPU_LEDGER_TESTING_H_
