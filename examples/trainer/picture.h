/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_PICTURE_H
#define TRAINER_PICTURE_H

#include <stdbool.h>

/* A small picture to be shown in TensorBoard: 3 bytes a pixel, [height][width]. */
struct picture {
    int width, height;
    unsigned char *pixels;
};

struct color {
    unsigned char red, green, blue;
};

enum { DIGIT_WIDTH = 3, DIGIT_HEIGHT = 5 };

/* Black. False: there is no memory. */
bool picture_init(struct picture *picture, int width, int height);
void picture_free(struct picture *picture);

/* All of these draw what is inside the picture; x and y are the left upper corner. */
void picture_fill(struct picture *picture, int x, int y, int width, int height, struct color color);
/* Gray pixels, a byte each. */
void picture_grey(struct picture *picture, int x, int y, int width, int height, const unsigned char *pixels);
/* A number that is not negative, in digits of DIGIT_WIDTH by DIGIT_HEIGHT pixels, and its width. */
void picture_number(struct picture *picture, int x, int y, long number, struct color color);
int picture_number_width(long number);

#endif
