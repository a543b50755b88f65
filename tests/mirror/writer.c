/* SPDX-License-Identifier: BSD-3-Clause */
/* writer SET-FILE: opens a mirrored set, stores each line of standard input at its begin, flushes it, and prints the
 * code of that. A line `mark N` marks a consistency point instead, and a line `metrics` prints the metrics of the set.
 * A line `fork` prints the process of a child that does nothing. */
#include <librpma_mirror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rpma_mirror_cfg *cfg = NULL;
    struct rpma_mirror *mirror = NULL;
    void *address = NULL;
    char line[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || rpma_mirror_cfg_from_file(argv[1], &cfg) != 0 ||
            rpma_mirror_map(cfg, NULL, 0, &address, &mirror) != 0) {
        puts(rpma_mirror_error_message());
        return 1;
    }
    puts("open");
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strncmp(line, "mark ", 5) == 0) {
            printf("%d\n", rpma_mirror_set_consistency_point(mirror, strtoull(line + 5, NULL, 10)));
            continue;
        }
        char *text = NULL;
        if (strcmp(line, "metrics\n") == 0 && rpma_mirror_get_metrics(mirror, &text) == 0) {
            printf("%s# end\n", text);
            free(text);
            continue;
        }
        if (strcmp(line, "fork\n") == 0) {
            const pid_t child = fork();
            while (child == 0)
                pause();
            printf("%d\n", (int)child);
            continue;
        }
        const struct rpma_mirror_range range = {0, strcspn(line, "\n")};
        memcpy(address, line, range.length);
        printf("%d\n", rpma_mirror_optimized_flush(mirror, 0, &range, 1, 0));
    }
    /* The program exits without closing the set, like a crash. */
    return 0;
}
