// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>
#include <utility>

// Functions of simulated libraries: one with a result, one without, and one that deletes a handle.
#define SIMULATED(type, name, parameters, result)                                                                      \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return result;                                                                                                 \
    }
#define SIMULATED_CALL(name, parameters, statement)                                                                    \
    void name parameters                                                                                               \
    {                                                                                                                  \
        statement;                                                                                                     \
    }
#define SIMULATED_DELETE(name, type) SIMULATED(int, name, (type * *of), deleted(of))

// Results of functions that store a value or a new handle, and of those that delete a handle.
template<class T>
int stored(T *to, std::type_identity_t<T> value)
{
    *to = value;
    return 0;
}

template<class T>
int deleted(T **of)
{
    delete std::exchange(*of, nullptr);
    return 0;
}
