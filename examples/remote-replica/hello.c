/* SPDX-License-Identifier: BSD-3-Clause */
/* Each run reads the greeting of the previous run from the target, and writes the next one. */
#include <librpmem.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/output.h"

#define POOL_SIZE ((size_t)4 * 1024 * 1024)
#define HEADER_SIZE ((size_t)4096)
#define TEXT_SIZE ((size_t)64)

static const char *const greetings[] = {"Hello, world!", "Bonjour, le monde !", "Hallo, Welt!"};
#define GREETINGS (sizeof(greetings) / sizeof(greetings[0]))

/* Returns the greeting that follows `text`, or the first one for any other text. */
static const char *next_greeting(const char *text)
{
    for (size_t i = 0; i < GREETINGS; ++i)
        if (strncmp(text, greetings[i], TEXT_SIZE) == 0)
            return greetings[(i + 1) % GREETINGS];
    return greetings[0];
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        errx(2, "usage: hello TARGET SET");
    char *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    char *const text = memory + HEADER_SIZE;
    const struct rpmem_pool_attr attributes = {.signature = "HELLO"};
    struct rpmem_pool_attr found = attributes;
    unsigned lanes = 1;
    RPMEMpool *pool = rpmem_create(argv[1], argv[2], memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL && errno == EEXIST)
        pool = rpmem_open(argv[1], argv[2], memory, POOL_SIZE, &lanes, &found);
    if (pool == NULL)
        errx(1, "%s", rpmem_errormsg());
    if (memcmp(found.signature, attributes.signature, sizeof(found.signature)) != 0)
        errx(1, "%s: pool of another program", argv[2]);
    if (rpmem_read(pool, text, HEADER_SIZE, TEXT_SIZE, 0) != 0)
        errx(1, "%s", rpmem_errormsg());
    printf("found:   %.*s\n", (int)TEXT_SIZE, text);
    char next[TEXT_SIZE] = "";
    strcpy(next, next_greeting(text));
    memcpy(text, next, TEXT_SIZE);
    if (rpmem_persist(pool, HEADER_SIZE, TEXT_SIZE, 0, 0) != 0)
        errx(1, "%s", rpmem_errormsg());
    printf("written: %s\n", text);
    if (rpmem_close(pool) != 0)
        errx(1, "%s", rpmem_errormsg());
    return 0;
}
