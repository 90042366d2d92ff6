/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_JSON_H
#define HS_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_loadb. After a failure, hs__json_no_memory returns true if the reason was memory. */
json_t *hs__json_load(const char *text, size_t bytes, size_t flags, json_error_t *cause);
bool hs__json_no_memory(const json_error_t *cause);

#endif
