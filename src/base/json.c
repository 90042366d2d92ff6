/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

bool hs__json_no_memory(const json_error_t *cause)
{
    return !cause->text[0] || json_error_code(cause) == json_error_out_of_memory;
}

static json_t *load(const char *text, size_t bytes, size_t flags, json_error_t *cause)
{
    *cause = (json_error_t){.text = ""};
    return json_loadb(text, bytes, flags, cause);
}

/* Jansson reports an allocation that fails inside a string as a fault of the text. So before a text is called damaged, it
 * is parsed again while there is memory. */
json_t *hs__json_load(const char *text, size_t bytes, size_t flags, json_error_t *cause)
{
    json_malloc_t allocate;
    json_free_t release;
    json_t *root = load(text, bytes, flags, cause);
    if (root || hs__json_no_memory(cause))
        return root;
    json_get_alloc_funcs(&allocate, &release);
    void *probe = allocate(bytes + 1);
    *cause = (json_error_t){.text = ""};
    if (!probe)
        return NULL;
    root = load(text, bytes, flags, cause);
    release(probe);
    return root;
}
