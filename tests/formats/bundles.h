/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_BUNDLES_H
#define HS_TESTS_FORMATS_BUNDLES_H

/* Shared by the tests of bundles: one bundle in a temporary directory, written by the writer or by hand. */

#include "support/test.h"

#include "bundle.pb-c.h"

#include "formats/bundle.h"

extern test_env t;
extern hs_error err;
extern char *directory;

int set_up(void **state);
int tear_down(void **state);

/* A path in the directory; the bundle's prefix, index and only data file. */
const char *in(const char *name);
#define PREFIX    in("b")
#define INDEX     in("b.index")
#define DATA_FILE in("b.data-00000-of-00001")

typedef struct named_tensor {
    const char *name;
    hs_tensor value;
} named_tensor;

/* Writes the bundle: the first must succeed, the second returns the code. */
void write_bundle(const named_tensor *tensors, size_t n);
hs_code try_write_bundle(const hs_env *env, const named_tensor *tensors, size_t n);

/* Opens the bundle, which must succeed. */
hs__bundle_reader open_bundle(void);
const hs__bundle_entry *find_entry(const hs__bundle_reader *reader, const char *name);
/* Asserts that the bundle has the tensor with these elements, and that it verifies. */
void assert_tensor(hs__bundle_reader *reader, const char *name, const hs_tensor *expected);

/* An index made by hand: begin, keys in order, end. */
void index_begin(void);
void index_put(const char *key, size_t key_bytes, const void *value, size_t bytes);
void index_put_message(const char *key, const ProtobufCMessage *message);
void index_put_header(int32_t shards);
/* An entry of an index, which may be invalid. */
typedef struct claim {
    const char *why; /* the expected message, and its code */
    hs_code code;
    int dtype; /* 0: float */
    size_t n_dims;
    int64_t dims[9];
    int64_t offset, size;
    int32_t shard;
    bool unknown_rank;
    uint32_t crc; /* not masked */
    size_t n_slices;
    const hs__box *slices; /* a length of -1 is omitted */
} claim;
void index_put_claim(const char *key, const claim *c);
/* The same with the key of a slice. */
void index_put_slice(const char *name, const hs__box *box, const claim *c);
void index_end(void);

/* The value of a key in the index file. The caller frees it with free. NULL: not found. */
unsigned char *index_value(const char *key, size_t *bytes);

#endif
