// SPDX-License-Identifier: BSD-3-Clause
#include "arbiter.hpp"

#include "failure.hpp"
#include "operator_arbiter.hpp"

namespace mirror
{

void check_arbiter(const std::string &text)
{
    (void)make_arbiter(text);
}

std::unique_ptr<arbiter> make_arbiter(const std::string &text)
{
    if (text == "operator")
        return std::make_unique<operator_arbiter>();
    throw failure(RPMA_MIRROR_E_INVAL, "there is no arbiter '" + text + "': write operator");
}

} // namespace mirror
