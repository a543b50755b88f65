// SPDX-License-Identifier: BSD-3-Clause
#include "hello.h"

#include <stdio.h>
#include <string.h>

#include "status.h"
#include "text.h"

enum {
    ENGLISH = 0,
    SPANISH = 1
};

/* Records may be unaligned, because they follow a signature of 17 bytes: memcpy is needed. */
static void set_language(char *record, int language)
{
    static const char *const texts[] = {[ENGLISH] = "Hello world!", [SPANISH] = "¡Hola Mundo!"};

    memset(record, 0, HELLO_SIZE);
    memcpy(record, &language, sizeof(language));
    memcpy(record + HELLO_TEXT_OFFSET, texts[language], strlen(texts[language]));
}

int hello_open_record(const struct arguments *args, struct memory *memory)
{
    const uint64_t offset = arguments_number(args, 1, "<pmem-offset>", 0);
    const int status = memory_open(memory, arguments_operand(args, 0), (size_t)offset, HELLO_SIZE);
    if (status != STATUS_OK)
        return status;

    char *record = memory->base + memory->data_offset;
    if (memory->is_new) {
        set_language(record, ENGLISH);
        memory_sign(memory, HELLO_SIZE);
    }
    return print_text("Next value", record + HELLO_TEXT_OFFSET, HELLO_TEXT_SIZE);
}

int hello_translate(struct memory *memory)
{
    char *record = memory->base + memory->data_offset;
    int language;
    memcpy(&language, record, sizeof(language));

    puts("translating...");
    set_language(record, language == ENGLISH ? SPANISH : ENGLISH);
    memory_persist(memory, HELLO_SIZE);
    return print_text("Translation", record + HELLO_TEXT_OFFSET, HELLO_TEXT_SIZE);
}

int hello_open_area(const struct arguments *args, struct memory *memory)
{
    const int status = memory_open(memory, arguments_operand(args, 0), 0, HELLO_TEXT_SIZE);
    if (status != STATUS_OK)
        return status;

    char *text = memory->base + memory->data_offset;
    if (memory->is_new) {
        *text = '\0';
        memory_sign(memory, 1);
    }
    return *text == '\0' ? STATUS_OK : print_text("Old value", text, HELLO_TEXT_SIZE);
}

int hello_print_area(const struct memory *memory)
{
    return print_text("New value", memory->base + memory->data_offset, HELLO_TEXT_SIZE);
}
