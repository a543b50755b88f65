// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_HELLO_H
#define EXAMPLES_HELLO_H 1

#include "arguments.h"
#include "memory.h"

/*
 * The text that 03, 04 and 05 transfer. The client has a record: a language (C int; 0 English, 1 Spanish), then the
 * text in it. The server has an area for the text. Only the text is transferred.
 */
enum {
    HELLO_TEXT_OFFSET = 4, /* offset of the text in the record */
    HELLO_TEXT_SIZE = 1024,
    HELLO_SIZE = HELLO_TEXT_OFFSET + HELLO_TEXT_SIZE
};

/* Operands of the clients (see hello_open_record) and of the servers (see hello_open_area). */
#define HELLO_CLIENT_OPERANDS "[<pmem-path> [<pmem-offset>]]"
#define HELLO_CLIENT_OPERANDS_HELP                                                                                     \
    "  <pmem-path>      file or PMem device that holds this client's text; without it the text is in DRAM\n"           \
    "  <pmem-offset>    where in it the text's signature starts, in bytes (default 0)\n"
#define HELLO_SERVER_OPERANDS_HELP                                                                                     \
    "  <pmem-path>      file or PMem device that receives the text; without it the text goes to DRAM\n"

enum {
    HELLO_CLIENT_MAX_OPERANDS = 2,
    HELLO_SERVER_MAX_OPERANDS = 1
};

/* Opens the client's record at memory->data_offset, in English if it is new, and prints its text. Returns a status. */
int hello_open_record(const struct arguments *args, struct memory *memory);

/* Replaces the record's text with the other language, persists and prints it. Returns a status. */
int hello_translate(struct memory *memory);

/* Opens the server's text area at memory->data_offset, empty if it is new, and prints its old text. Returns a
 * status. */
int hello_open_area(const struct arguments *args, struct memory *memory);

/* Prints the text in the server's area. Returns a status: failure if the area contains no text. */
int hello_print_area(const struct memory *memory);

#endif /* EXAMPLES_HELLO_H */
