// SPDX-License-Identifier: BSD-3-Clause
/* Checks the log after a power cut: it must be intact and contain all acknowledged records. */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_layout.h"
#include "output.h"
#include "status.h"

static int check_record(FILE *file, uint64_t number)
{
    uint64_t record[RECORD_WORDS];
    if (fread(record, sizeof(record), 1, file) != 1) {
        warnx("record %" PRIu64 " is not in the file", number);
        return STATUS_FAILED;
    }
    for (unsigned i = 0; i < RECORD_WORDS; ++i) {
        if (record[i] != record_word(number, i)) {
            warnx("word %u of record %" PRIu64 " is 0x%016" PRIx64 " instead of 0x%016" PRIx64, i, number, record[i],
                    record_word(number, i));
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

static int check_log(FILE *file, uint64_t acknowledged)
{
    uint64_t count = 0;
    if (fread(&count, sizeof(count), 1, file) != 1 || fseek(file, LOG_RECORDS_OFFSET, SEEK_SET) != 0) {
        warnx("the file is too short for a log");
        return STATUS_FAILED;
    }
    if (count > LOG_CAPACITY) {
        warnx("invalid log: %" PRIu64 " records, the maximum is %d", count, LOG_CAPACITY);
        return STATUS_FAILED;
    }
    if (count < acknowledged) {
        warnx("the log has %" PRIu64 " records, %" PRIu64 " were acknowledged", count, acknowledged);
        return STATUS_FAILED;
    }
    for (uint64_t number = 0; number < count; ++number) {
        if (check_record(file, number) != STATUS_OK)
            return STATUS_FAILED;
    }
    printf("records: %" PRIu64 "\n", count);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    char *end = NULL;
    const uint64_t acknowledged = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    if (argc != 3 || *argv[2] == '\0' || *end != '\0') {
        fprintf(stderr, "usage: check <pmem-path> <acknowledged records>\n");
        return STATUS_USAGE;
    }
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL) {
        warnx("cannot open '%s': %s", argv[1], strerror(errno));
        return STATUS_FAILED;
    }
    const int status = check_log(file, acknowledged);
    (void)fclose(file);
    return status;
}
