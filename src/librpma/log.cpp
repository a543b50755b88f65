// SPDX-License-Identifier: BSD-3-Clause
#include "log.hpp"

#include <cstdio>
#include <cstring>

#include "probe.hpp"

namespace rpma::log
{

#ifdef RPMA_DEBUG_BUILD
constinit std::atomic<rpma_log_level> thresholds[] = {RPMA_LOG_LEVEL_DEBUG, RPMA_LOG_LEVEL_WARNING};
#else
constinit std::atomic<rpma_log_level> thresholds[] = {RPMA_LOG_LEVEL_WARNING, RPMA_LOG_DISABLED};
#endif

constinit std::atomic<rpma_log_function *> function = write_default;

namespace
{

bool is_known(rpma_log_threshold threshold)
{
    return threshold == RPMA_LOG_THRESHOLD || threshold == RPMA_LOG_THRESHOLD_AUX;
}

// strerror_r returns an int (XSI) or the message (GNU), depending on the C library.
[[maybe_unused]] const char *chosen_text(int, const char *buffer)
{
    return buffer;
}
[[maybe_unused]] const char *chosen_text(const char *text, const char *)
{
    return text;
}

} // namespace

errno_text::errno_text(int error)
{
    std::snprintf(buffer_, sizeof(buffer_), "errno %d", error);
    text_ = chosen_text(strerror_r(error, buffer_, sizeof(buffer_)), buffer_);
}

errc provider_error(
        int error, const char *call, const char *detail, const char *file_name, int line_no, const char *function_name)
{
    if (enabled(RPMA_LOG_LEVEL_ERROR))
        if (auto *const write = function.load(std::memory_order_acquire); write != nullptr)
            write(RPMA_LOG_LEVEL_ERROR, file_name, line_no, function_name, "%s(%s) failed: %s\n", call, detail,
                    errno_text(error).c_str());
    STATIC_PROBE(librpma, provider_error, 2, call, error);
    errno = error;
    return errc::provider;
}

} // namespace rpma::log

using namespace rpma;

extern "C" {

int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level)
{
    if (!log::is_known(threshold) || level < RPMA_LOG_DISABLED || level > RPMA_LOG_LEVEL_DEBUG)
        return RPMA_E_INVAL;
    log::thresholds[threshold].store(level);
    return 0;
}

int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level)
{
    if (!log::is_known(threshold) || level == nullptr)
        return RPMA_E_INVAL;
    *level = log::thresholds[threshold].load();
    return 0;
}

int rpma_log_set_function(rpma_log_function *log_function)
{
    log::function.store(log_function == RPMA_LOG_USE_DEFAULT_FUNCTION ? log::write_default : log_function);
    return 0;
}

} // extern "C"
