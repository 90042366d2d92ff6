/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_SAFETENSORS_FILES_H
#define HS_TESTS_FORMATS_SAFETENSORS_FILES_H

/* Shared by the tests of safetensors: one file in a temporary directory, written by the writer or by hand. */

#include "formats/bundles.h" /* the directory, and tensors with names */

#include "formats/safetensors.h"

#define FILE_PATH in("m.safetensors")

/* Writes the file: the first must succeed, the second returns the code. */
void write_file(const named_tensor *tensors, size_t n, const hs_safetensors_pair *metadata);
hs_code try_write_file(const hs_env *env, const named_tensor *tensors, size_t n, const hs_safetensors_pair *metadata);

/* Writes a file with this header, which may be invalid, and this number of bytes of data: 0, 1, 0, 1, ... */
void write_by_hand(const char *header, size_t data_bytes);

/* The file's header without padding. The caller frees it. *data (may be NULL) is the offset of the data. */
char *header_text(size_t *data);

/* Opens the file, which must succeed. */
hs__safetensors_reader open_file(void);
/* Opens it and reads every tensor. */
hs_code outcome_of_file(const hs_env *env);
/* Asserts that the file has the tensor with these elements. */
void assert_stored(hs__safetensors_reader *reader, const char *name, const hs_tensor *expected);

#endif
