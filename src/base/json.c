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

/* If an allocation fails inside a string, Jansson reports an error in the text. So a text is parsed again, when memory of
 * its size could be allocated, before it counts as invalid. */
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
