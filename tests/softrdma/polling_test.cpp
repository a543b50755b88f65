// SPDX-License-Identifier: BSD-3-Clause
// White-box: whether the poll of a completion queue looks at the network. Where it does not, only the progress thread
// does, which a busy machine keeps waiting while the program polls.
#include "verbs/cq.hpp"

#include <unistd.h>

extern "C" {
#include "fixture.h"
}

using namespace softrdma;

namespace
{

int users_of_network(const side &s)
{
    return cq_of(s.cq).network_users.load();
}

// Both sides have agreed on the path a moment after the connection is there.
bool looks_in_memory_only(const side &s)
{
    for (int i = 0; i < time_limit_ms && users_of_network(s) != 0; ++i)
        usleep(1000);
    return users_of_network(s) == 0;
}

void messages_come_in_memory(void **)
{
    pair p;
    open_pair(&p, nullptr);
    assert_true(looks_in_memory_only(p.client));
    assert_true(looks_in_memory_only(p.server));
    close_pair(&p);
}

void messages_for_a_shared_queue_come_over_the_network(void **)
{
    pair p;
    options shared{};
    shared.server_srq = true;
    open_pair(&p, &shared);
    assert_true(looks_in_memory_only(p.client));
    assert_true(users_of_network(p.server) > 0);
    close_pair(&p);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(messages_come_in_memory),
            cmocka_unit_test(messages_for_a_shared_queue_come_over_the_network),
    };
    return cmocka_run_group_tests_name("polling", tests, nullptr, nullptr);
}
