// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The macro fail of cmocka conflicts with the standard library: include this header after the others.
#include "registered_tests.h"

// Defines a test with the members of a fixture, whose constructor gets the other arguments. The function body follows.
#define FIXTURE_TEST(fixture, name, ...)                                                                               \
    struct name##_fixture : fixture {                                                                                  \
        using parent = fixture;                                                                                        \
        using parent::parent;                                                                                          \
        void run();                                                                                                    \
    };                                                                                                                 \
    DEFINE_TEST(name, nullptr, nullptr)                                                                                \
    {                                                                                                                  \
        name##_fixture(__VA_ARGS__).run();                                                                             \
    }                                                                                                                  \
    void name##_fixture::run()
