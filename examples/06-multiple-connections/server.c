// SPDX-License-Identifier: BSD-3-Clause
#include <stddef.h>

#include "names.h"

int main(int argc, char **argv)
{
    return names_server(argc, argv, NULL);
}
