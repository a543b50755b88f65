// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <utility>

#include "abi.hpp"
#include "errno_guard.hpp"

namespace rpma
{

enum class [[nodiscard]] errc : int{
        ok = 0,
        unknown = RPMA_E_UNKNOWN,
        nosupp = RPMA_E_NOSUPP,
        provider = RPMA_E_PROVIDER,
        nomem = RPMA_E_NOMEM,
        inval = RPMA_E_INVAL,
        no_completion = RPMA_E_NO_COMPLETION,
        no_event = RPMA_E_NO_EVENT,
        shared_channel = RPMA_E_SHARED_CHANNEL,
        not_shared_channel = RPMA_E_NOT_SHARED_CHNL,
};

constexpr int to_int(errc error)
{
    return static_cast<int>(error);
}

// Value or error code, like std::expected.
template<class T>
class [[nodiscard]] result
{
public:
    result(errc error) : error_(error) {}
    result(T value) : error_(errc::ok), value_(std::move(value)) {}

    bool ok() const { return error_ == errc::ok; }
    errc error() const { return error_; }
    T &value() { return value_; }

private:
    errc error_;
    T value_{};
};

// First failure, and its errno, of steps that are all executed or of which one must succeed.
class first_error
{
public:
    void add(errc error)
    {
        if (error != errc::ok && error_ == errc::ok) {
            error_ = error;
            errno_ = errno;
        }
    }

    errc finish() const
    {
        if (error_ != errc::ok)
            errno = errno_;
        return error_;
    }

    void forget() const { errno = before_; }

private:
    const int before_ = errno;
    errc error_ = errc::ok;
    int errno_ = 0;
};

} // namespace rpma

#define RPMA_RETURN_IF_ERROR(expression)                                                                               \
    do {                                                                                                               \
        if (const ::rpma::errc rpma_error_ = (expression); rpma_error_ != ::rpma::errc::ok)                            \
            return rpma_error_;                                                                                        \
    } while (false)

#define RPMA_JOIN_(a, b) a##b
#define RPMA_JOIN(a, b) RPMA_JOIN_(a, b)

// RPMA_ASSIGN_OR_RETURN(auto x, f()): assigns the value of the result of f() to x, or returns its error.
#define RPMA_ASSIGN_OR_RETURN(target, expression)                                                                      \
    auto RPMA_JOIN(rpma_result_, __LINE__) = (expression);                                                             \
    if (!RPMA_JOIN(rpma_result_, __LINE__).ok())                                                                       \
        return RPMA_JOIN(rpma_result_, __LINE__).error();                                                              \
    target = std::move(RPMA_JOIN(rpma_result_, __LINE__).value())
