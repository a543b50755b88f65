// SPDX-License-Identifier: BSD-3-Clause
// A user's C++ program: handles in smart pointers, and a log function of its own.
#include <librpma.h>
#include <cstring>
#include <iostream>
#include <memory>

namespace
{

int messages;

void count_messages(rpma_log_level, const char *, const int, const char *, const char *, ...)
{
    messages++;
}

struct cfg_deleter {
    void operator()(rpma_conn_cfg *cfg) const { rpma_conn_cfg_delete(&cfg); }
};

std::unique_ptr<rpma_conn_cfg, cfg_deleter> new_cfg()
{
    rpma_conn_cfg *cfg = nullptr;
    return rpma_conn_cfg_new(&cfg) == 0 ? std::unique_ptr<rpma_conn_cfg, cfg_deleter>{cfg} : nullptr;
}

} // namespace

int main()
{
    uint32_t size = 0;
    rpma_mr_remote *mr = nullptr;
    const char too_short[1] = {};
    const auto cfg = new_cfg();
    const bool right = cfg != nullptr && rpma_conn_cfg_set_rq_size(cfg.get(), 7) == 0 &&
                       rpma_conn_cfg_get_rq_size(cfg.get(), &size) == 0 && size == 7 &&
                       rpma_log_set_function(count_messages) == 0 &&
                       rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG) == 0 &&
                       rpma_mr_remote_from_descriptor(too_short, sizeof(too_short), &mr) == RPMA_E_INVAL &&
                       messages > 0 && std::strcmp(rpma_err_2str(RPMA_E_NOSUPP), "Not supported") == 0;
    std::cout << (right ? "ok" : "FAIL") << '\n';
    return right ? 0 : 1;
}
