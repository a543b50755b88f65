// SPDX-License-Identifier: BSD-3-Clause
#include "players.h"

int main(int argc, char **argv)
{
    return players_main(argc, argv);
}
