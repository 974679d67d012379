/* SPDX-License-Identifier: MIT */
/* Any text is either a stack, whose tables can be made, or an error with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "base/stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct stack *stack)
{
    for (size_t i = 0; i < stack->count; i++) {
        const struct stack_table *entry = &stack->tables[i];
        struct err err = {""};

        if (table_check(entry->table, &err) < 0 || entry->table->keys != KEYS_PLAIN ||
            entry->table->stream != (entry->function != NULL))
            abort();
        if (stack->has_functions && entry->function && !stack_function(stack, entry->function))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stack *stack = NULL;
    struct err err = {""};
    int r = stack_parse(span_of((const char *)data, size), &stack, &err);

    if (r == 0)
        use(stack);
    else if (stack || !err.text[0])
        abort();
    stack_free(stack);
    return 0;
}
