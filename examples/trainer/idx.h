/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_IDX_H
#define TRAINER_IDX_H

#include <hooksess/status.h>

/* Labeled images in the IDX format of MNIST and its relatives, gzip'd. They stay bytes in memory. */

enum { CLASSES = 10 };

struct dataset {
    size_t n, pixels, columns;  /* images, bytes of each, and of each row of these */
    unsigned char *images;      /* [n][pixels] */
    unsigned char *labels;      /* [n], each below CLASSES */
    unsigned long checksums[2]; /* CRC-32 of the contents of both files */
};

/* Reads DIRECTORY/PART-images-idx3-ubyte.gz and DIRECTORY/PART-labels-idx1-ubyte.gz, to the end, so that the checksum of
 * both is verified. An error names the file and says what to do; then there is nothing to free. */
hs_code dataset_load(struct dataset *set, const char *directory, const char *part, hs_error *err);
void dataset_free(struct dataset *set);

#endif
