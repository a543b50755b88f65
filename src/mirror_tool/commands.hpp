// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "failure.hpp"
#include "options.hpp"

namespace mirror_tool
{

exit_status run(const options &opts);

} // namespace mirror_tool
