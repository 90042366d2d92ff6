/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_IDX_H
#define TRAINER_IDX_H

#include <hooksess/status.h>

/* Labeled images in the gzip'd IDX format of MNIST. They stay bytes in memory. */

enum { CLASSES = 10 };

struct dataset {
    size_t n, pixels, columns;  /* number of images, bytes of an image, bytes of a row of an image */
    unsigned char *images;      /* [n][pixels] */
    unsigned char *labels;      /* [n], each less than CLASSES */
    unsigned long checksums[2]; /* CRC-32 of the contents of the two files */
};

/* Reads DIRECTORY/PART-images-idx3-ubyte.gz and DIRECTORY/PART-labels-idx1-ubyte.gz, and
 * verifies their checksums. An error names the file and the remedy; then the set is empty. */
hs_code dataset_load(struct dataset *set, const char *directory, const char *part, hs_error *err);
void dataset_free(struct dataset *set);

#endif
