// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <librpma_mirror.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mirror_tool
{

// Format a size such as 12.5 MiB, and a duration such as 1 h 02 min.
std::string size_text(std::uint64_t bytes);
std::string duration_text(std::uint64_t seconds);
const char *level_text(rpma_mirror_level level);
// Formats a list such as "1 and 2".
std::string list_text(const std::vector<unsigned> &copies);

// Formats rows as a table with aligned columns. The first row is the heading.
std::string table(const std::vector<std::vector<std::string>> &rows);

std::vector<unsigned> listed_copies(const rpma_mirror_state &state);
bool is_in_use(const rpma_mirror_state &state);
std::vector<unsigned> missing_copies(const rpma_mirror_state &state);
std::string state_text(const rpma_mirror_state &state);
// Returns one line: the reason why no copy has a record, and the remedy.
std::string absence_text(const rpma_mirror_state &state);
nlohmann::ordered_json state_json(const rpma_mirror_state &state);

std::string recovery_text(const rpma_mirror_recovery_report &report);
nlohmann::ordered_json recovery_json(const rpma_mirror_recovery_report &report);

} // namespace mirror_tool
