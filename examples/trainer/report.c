/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <hooksess/summary_values.h>

#include <string.h>

/* Counting. */

void tested_clear(struct tested *tested)
{
    memset(tested, 0, sizeof *tested);
}

void tested_add(struct tested *tested, size_t image, int label, int said)
{
    tested->counts[label][said]++;
    if (said != label && tested->n_mistakes < MOST_MISTAKES)
        tested->mistakes[tested->n_mistakes++] = (struct mistake){image, said};
}

double tested_accuracy(const struct tested *tested)
{
    int64_t right = 0, all = 0;
    for (int label = 0; label < CLASSES; label++)
        for (int said = 0; said < CLASSES; said++) {
            all += tested->counts[label][said];
            right += label == said ? tested->counts[label][said] : 0;
        }
    return all ? (double)right / (double)all : 0;
}

/* The names of classes, where it is known that they have them: by the checksum of the test labels. */
static const char *class_name(const struct dataset *set, int class)
{
    static const unsigned long fashion_mnist = 0x80142c1f;
    static const char *const names[CLASSES] = {" T-shirt", " trouser", " pullover", " dress", " coat",
                                               " sandal",  " shirt",   " sneaker",  " bag",   " boot"};
    return set->checksums[1] == fashion_mnist ? names[class] : "";
}

/* The confusion matrix: a row for each label, a column for each class that is said. */

enum { CELL = 22, MARGIN = 12 };

static const struct color white = {255, 255, 255}, black = {0, 0, 0}, green = {110, 230, 110}, red = {255, 120, 110};

static int64_t row_sum(const struct tested *tested, int label)
{
    int64_t sum = 0;
    for (int said = 0; said < CLASSES; said++)
        sum += tested->counts[label][said];
    return sum;
}

/* In the middle of a place. */
static void draw_number(struct picture *picture, int x, int y, int width, int height, int64_t number, struct color color)
{
    picture_number(picture, x + (width - picture_number_width((long)number)) / 2, y + (height - DIGIT_HEIGHT) / 2,
                   (long)number, color);
}

/* The darker, the more of the row; mistakes are red, and stand out. */
static void draw_cell(struct picture *picture, int label, int said, int64_t count, double share)
{
    int x = MARGIN + said * CELL, y = MARGIN + label * CELL;
    double depth = label == said ? share : share < 0.25 ? 4 * share : 1;
    unsigned char light = (unsigned char)(255 - 200 * depth), lighter = (unsigned char)(255 - 120 * depth);
    struct color color = label == said ? (struct color){light, lighter, 255} : (struct color){255, light, light};
    picture_fill(picture, x, y, CELL - 1, CELL - 1, color);
    draw_number(picture, x, y, CELL - 1, CELL - 1, count, depth > 0.6 ? white : black);
}

static void draw_matrix(struct report *report)
{
    for (int label = 0; label < CLASSES; label++) {
        int64_t sum = row_sum(report->tested, label);
        draw_number(&report->matrix, 0, MARGIN + label * CELL, MARGIN, CELL, label, green);
        draw_number(&report->matrix, MARGIN + label * CELL, 0, CELL, MARGIN, label, red);
        for (int said = 0; said < CLASSES; said++) {
            int64_t count = report->tested->counts[label][said];
            draw_cell(&report->matrix, label, said, count, sum ? (double)count / (double)sum : 0);
        }
    }
}

static const char *write_matrix(struct report *report)
{
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "| label \\ said |");
    for (int said = 0; said < CLASSES; said++)
        text_add(text, " %d%s |", said, class_name(report->set, said));
    text_add(text, "\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int label = 0; label < CLASSES; label++) {
        text_add(text, "| **%d%s** |", label, class_name(report->set, label));
        for (int said = 0; said < CLASSES; said++)
            text_add(text, " %lld |", (long long)report->tested->counts[label][said]);
        text_add(text, "\n");
    }
    return text->bytes;
}

/* The mistakes, each image over its label (green, at the left) and what the model says (red, at the right). */

enum { GRID_COLUMNS = 10, GAP = 2, CAPTION = DIGIT_HEIGHT + 2 * GAP };

static void draw_grid(struct report *report)
{
    const struct dataset *set = report->set;
    int width = (int)set->columns, height = (int)(set->pixels / set->columns);
    struct picture *grid = &report->grid;
    picture_fill(grid, 0, 0, grid->width, grid->height, black);
    for (size_t i = 0; i < report->tested->n_mistakes; i++) {
        const struct mistake *mistake = &report->tested->mistakes[i];
        int x = GAP + (int)i % GRID_COLUMNS * (width + GAP), y = GAP + (int)i / GRID_COLUMNS * (height + CAPTION);
        picture_grey(grid, x, y, width, height, set->images + mistake->image * set->pixels);
        draw_number(grid, x, y + height, width / 2, CAPTION - GAP, set->labels[mistake->image], green);
        draw_number(grid, x + width / 2, y + height, width / 2, CAPTION - GAP, mistake->said, red);
    }
}

static const char *write_grid(struct report *report)
{
    const struct dataset *set = report->set;
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "The first mistakes, in the order of the images.\n\n| image | label | said |\n|---:|---|---|\n");
    for (size_t i = 0; i < report->tested->n_mistakes; i++) {
        const struct mistake *mistake = &report->tested->mistakes[i];
        int label = set->labels[mistake->image];
        text_add(text, "| %zu | %d%s | %d%s |\n", mistake->image, label, class_name(set, label), mistake->said,
                 class_name(set, mistake->said));
    }
    return text->bytes;
}

/* The Summary. */

hs_code report_init(struct report *report, const struct dataset *set, const struct tested *tested, hs_error *err)
{
    int rows = (int)(set->pixels / set->columns), columns = (int)set->columns;
    *report = (struct report){.set = set, .tested = tested, .summary = hs_summary_new(NULL)};
    bool made = picture_init(&report->matrix, MARGIN + CLASSES * CELL, MARGIN + CLASSES * CELL) &&
                picture_init(&report->grid, GAP + GRID_COLUMNS * (columns + GAP),
                             GAP + MOST_MISTAKES / GRID_COLUMNS * (rows + CAPTION));
    return made && report->summary ? HS_OK : hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the report");
}

void report_free(struct report *report)
{
    picture_free(&report->matrix);
    picture_free(&report->grid);
    hs_summary_free(report->summary);
    report->summary = NULL;
}

static hs_code add_picture(const struct report *report, const char *tag, const struct picture *picture, hs_error *err)
{
    const hs_tensor pixels = hs_tensor_of(HS_UINT8, HS_SHAPE(picture->height, picture->width, 3), picture->pixels);
    return hs_summary_image(report->summary, tag, &pixels, NULL, err);
}

hs_code report_run(void *self, hs_op *op, hs_error *err)
{
    struct report *report = self;
    hs_code code;
    hs_summary_clear(report->summary);
    draw_matrix(report);
    draw_grid(report);
    if ((code = add_picture(report, "confusion", &report->matrix, err)) ||
        (code = add_picture(report, "misclassified", &report->grid, err)) ||
        (code = hs_summary_text(report->summary, "confusion/table", write_matrix(report), err)) ||
        (code = hs_summary_text(report->summary, "misclassified/table", write_grid(report), err)))
        return code;
    report->serialized = hs_summary_serialized(report->summary);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &report->serialized);
    return hs_op_set_output(op, 0, &value, err);
}
