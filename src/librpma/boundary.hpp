// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "error.hpp"

namespace rpma
{

// Returns whether both pointers are non-NULL. One AND decides for most heap addresses.
inline bool both_non_null(const void *one, const void *other)
{
    if ((reinterpret_cast<std::uintptr_t>(one) & reinterpret_cast<std::uintptr_t>(other)) != 0) [[likely]]
        return true;
    return one != nullptr && other != nullptr;
}

// Stores a created object for the caller, or returns the error.
template<class T>
int return_handle(result<T *> created, T **to)
{
    if (created.ok())
        *to = created.value();
    return to_int(created.error());
}

// Deletes an object whose provider resources can fail to be released.
template<class T>
int close_and_delete(T **object_ptr)
{
    if (object_ptr == nullptr)
        return RPMA_E_INVAL;
    T *const object = *object_ptr;
    if (object == nullptr)
        return 0;
    const errc closed = object->close();
    const errno_guard keep_errno;
    delete object;
    *object_ptr = nullptr;
    return to_int(closed);
}

template<class T>
int new_plain(T **object_ptr)
{
    if (object_ptr == nullptr)
        return RPMA_E_INVAL;
    T *const object = new T;
    if (object == nullptr)
        return RPMA_E_NOMEM;
    *object_ptr = object;
    return 0;
}

template<class T>
int delete_plain(T **object_ptr)
{
    if (object_ptr == nullptr)
        return RPMA_E_INVAL;
    delete *object_ptr;
    *object_ptr = nullptr;
    return 0;
}

// Writes or reads one field of a configuration object that several threads may use.
template<class Cfg, class T>
int set_field(Cfg *cfg, std::atomic<T> Cfg::*field, T value)
{
    if (cfg == nullptr)
        return RPMA_E_INVAL;
    (cfg->*field).store(value);
    return 0;
}

template<class Cfg, class T>
int get_field(const Cfg *cfg, std::atomic<T> Cfg::*field, T *value)
{
    if (cfg == nullptr || value == nullptr)
        return RPMA_E_INVAL;
    *value = (cfg->*field).load();
    return 0;
}

} // namespace rpma
