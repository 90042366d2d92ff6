/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of all public structs that begin with `size`. Needs the structs of upper floors, but none of their
 * functions. */
#include <hooksess/cuda.h>
#include <hooksess/hooksess.h>
#include <hooksess/mpi.h>
#include <hooksess/simulation.h>
#include <hooksess/tensorflow.h>
#include <hooksess/tf1/session_manager.h>
#include <hooksess/tf1/supervisor.h>

#include <string.h>

#define SIZE(type) {#type, sizeof(type)},

static const struct {
    const char *type;
    size_t size;
} structs[] = {
#include "structs.inc" /* made by CMake of the public headers */
};

size_t hs_struct_size(const char *type)
{
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++)
        if (type && strcmp(structs[i].type, type) == 0)
            return structs[i].size;
    return 0;
}
