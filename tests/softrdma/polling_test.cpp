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

void send(pair &p, std::uint32_t length)
{
    assert_int_equal(post_shared_receive(p.srq, &p.server, 1, 0, p.server.size), 0);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 2, 0, length, nullptr, 0, 0), 0);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 1, IBV_WC_SUCCESS);
}

// Long ones come over the network, and so may the next.
void messages_for_a_shared_queue_come_in_memory_unless_they_are_long(void **)
{
    pair p;
    options shared{};
    shared.server_srq = true;
    shared.size = 20000;
    open_pair(&p, &shared);
    assert_true(looks_in_memory_only(p.client));
    assert_true(looks_in_memory_only(p.server));
    send(p, 8);
    assert_int_equal(users_of_network(p.server), 0);
    send(p, 20000);
    assert_true(users_of_network(p.server) > 0);
    for (int i = 0; i < 1024; ++i)
        send(p, 8);
    assert_int_equal(users_of_network(p.server), 0);
    close_pair(&p);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(messages_come_in_memory),
            cmocka_unit_test(messages_for_a_shared_queue_come_in_memory_unless_they_are_long),
    };
    return cmocka_run_group_tests_name("polling", tests, nullptr, nullptr);
}
