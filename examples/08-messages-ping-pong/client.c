// SPDX-License-Identifier: BSD-3-Clause
#include <stddef.h>

#include "ping_pong.h"

int main(int argc, char **argv)
{
    return ping_pong_client(argc, argv, PING_PONG_END_IS_A_ROUND, NULL);
}
