// Checks of cgpu's own parts on a host, and of what they have left behind. Rows of check_table.cc
// say what each is about.
#ifndef CGPU_DOCTOR_INSTALLATION_H_
#define CGPU_DOCTOR_INSTALLATION_H_

#include "base/result.h"
#include "doctor/check.h"
#include "runtime/settings.h"

namespace cgpu::doctor {

// Returns the host's settings; the defaults where there is no file. Errors as ParseSettings().
[[nodiscard]] Result<Settings> SettingsOf(const Facts& facts);
// Returns the defaults also where the file is wrong.
[[nodiscard]] Settings SettingsOrDefaults(const Facts& facts);

[[nodiscard]] Finding SettingsRead(const Facts& facts);
[[nodiscard]] Finding SavedSettingsRead(const Facts& facts);
[[nodiscard]] Finding SettingsNode(const Facts& facts);
[[nodiscard]] Finding ProgramsThere(const Facts& facts);
[[nodiscard]] Finding ProgramsModes(const Facts& facts);
[[nodiscard]] Finding ProgramsVersions(const Facts& facts);
[[nodiscard]] Finding DaemonRuns(const Facts& facts);
[[nodiscard]] Finding DaemonCurrent(const Facts& facts);
[[nodiscard]] Finding DaemonUnit(const Facts& facts);
[[nodiscard]] Finding UnitsFailed(const Facts& facts);
[[nodiscard]] Finding GroupThere(const Facts& facts);
[[nodiscard]] Finding ShimsCurrent(const Facts& facts);
[[nodiscard]] Finding ShimsAnswer(const Facts& facts);
[[nodiscard]] Finding FirmwareRefused(const Facts& facts);
[[nodiscard]] Finding FirmwareAllowed(const Facts& facts);
[[nodiscard]] Finding ShimUsers(const Facts& facts);
[[nodiscard]] Finding RegistryMode(const Facts& facts);
[[nodiscard]] Finding RegistryDead(const Facts& facts);
[[nodiscard]] Finding RegistryStrays(const Facts& facts);
[[nodiscard]] Finding ExporterAddress(const Facts& facts);
[[nodiscard]] Finding ExporterToken(const Facts& facts);
[[nodiscard]] Finding ExporterTls(const Facts& facts);
[[nodiscard]] Finding LeftoverBackup(const Facts& facts);
[[nodiscard]] Finding LeftoverScopes(const Facts& facts);
[[nodiscard]] Finding LeftoverMounts(const Facts& facts);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_INSTALLATION_H_
