/* SPDX-License-Identifier: Apache-2.0 */
/* Counts test results, and draws the confusion matrix and the misclassified images for TensorBoard. */
#include "report.h"

#include <hooksess/summary_values.h>

#include <stdio.h>
#include <string.h>

/* Counting. */

void test_result_clear(struct test_result *result)
{
    memset(result, 0, sizeof *result);
}

void test_result_add(struct test_result *result, size_t image, int label, int predicted)
{
    result->counts[label][predicted]++;
    if (predicted != label && result->n_mistakes < MAX_MISTAKES)
        result->mistakes[result->n_mistakes++] = (struct mistake){image, predicted};
}

double test_result_accuracy(const struct test_result *result)
{
    int64_t right = 0, all = 0;
    for (int label = 0; label < CLASSES; label++)
        for (int predicted = 0; predicted < CLASSES; predicted++) {
            all += result->counts[label][predicted];
            right += label == predicted ? result->counts[label][predicted] : 0;
        }
    return all ? (double)right / (double)all : 0;
}

/* Returns the name of a class of Fashion-MNIST, which the checksum of the test labels identifies; a digit for other data.
 */
static const char *class_name(const struct dataset *set, int class)
{
    static const unsigned long fashion_mnist = 0x80142c1f;
    static const char *const names[CLASSES] = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                               "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
    static const char *const digits[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    return (set->checksums[1] == fashion_mnist ? names : digits)[class];
}

/* The confusion matrix: a row for each label, a column for each predicted class. */

enum { NAME_WIDTH = 8 * LETTER_WIDTH, CELL_WIDTH = NAME_WIDTH + 4, CELL_HEIGHT = 24, MARGIN = LETTER_HEIGHT + 6 };

static const struct color white = {255, 255, 255}, black = {0, 0, 0}, green = {110, 230, 110}, red = {255, 120, 110};

static int64_t row_sum(const struct test_result *result, int label)
{
    int64_t sum = 0;
    for (int predicted = 0; predicted < CLASSES; predicted++)
        sum += result->counts[label][predicted];
    return sum;
}

/* A cell is darker if it has a larger share of its row. Mistakes are red, and four times as dark. */
static void draw_cell(struct picture *picture, int label, int predicted, int64_t count, double share)
{
    int x = CELL_WIDTH * (predicted + 1), y = MARGIN + label * CELL_HEIGHT;
    char number[24];
    double depth = label == predicted ? share : share < 0.25 ? 4 * share : 1;
    unsigned char light = (unsigned char)(255 - 200 * depth), lighter = (unsigned char)(255 - 120 * depth);
    struct color color = label == predicted ? (struct color){light, lighter, 255} : (struct color){255, light, light};
    snprintf(number, sizeof number, "%lld", (long long)count);
    picture_fill(picture, x, y, CELL_WIDTH - 1, CELL_HEIGHT - 1, color);
    picture_text(picture, x, y, CELL_WIDTH - 1, CELL_HEIGHT - 1, number, depth > 0.6 ? white : black);
}

static void draw_matrix(struct report *report)
{
    for (int label = 0; label < CLASSES; label++) {
        int64_t sum = row_sum(report->result, label);
        const char *name = class_name(report->set, label);
        picture_text(&report->matrix, 0, MARGIN + label * CELL_HEIGHT, CELL_WIDTH, CELL_HEIGHT, name, green);
        picture_text(&report->matrix, CELL_WIDTH * (label + 1), 0, CELL_WIDTH, MARGIN, name, red);
        for (int predicted = 0; predicted < CLASSES; predicted++) {
            int64_t count = report->result->counts[label][predicted];
            draw_cell(&report->matrix, label, predicted, count, sum ? (double)count / (double)sum : 0);
        }
    }
}

static const char *format_matrix(struct report *report)
{
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "| label \\ predicted |");
    for (int predicted = 0; predicted < CLASSES; predicted++)
        text_add(text, " %s |", class_name(report->set, predicted));
    text_add(text, "\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int label = 0; label < CLASSES; label++) {
        text_add(text, "| **%s** |", class_name(report->set, label));
        for (int predicted = 0; predicted < CLASSES; predicted++)
            text_add(text, " %lld |", (long long)report->result->counts[label][predicted]);
        text_add(text, "\n");
    }
    return text->bytes;
}

/* The misclassified images. Below each image, its label (green) and the predicted class (red). */

enum { GRID_COLUMNS = 10, GAP = 4, LINE = LETTER_HEIGHT + GAP };

static int grid_cell_width(const struct dataset *set)
{
    int width = (int)set->columns * PICTURE_SCALE;
    return GAP + (width > NAME_WIDTH ? width : NAME_WIDTH);
}

static int grid_cell_height(const struct dataset *set)
{
    return GAP + (int)(set->pixels / set->columns) * PICTURE_SCALE + 2 * LINE;
}

static void draw_grid(struct report *report)
{
    const struct dataset *set = report->set;
    struct picture *grid = &report->grid;
    int cell = grid_cell_width(set), columns = (int)set->columns, rows = (int)(set->pixels / set->columns);
    picture_fill(grid, 0, 0, grid->width, grid->height, black);
    for (size_t i = 0; i < report->result->n_mistakes; i++) {
        const struct mistake *mistake = &report->result->mistakes[i];
        int x = (int)i % GRID_COLUMNS * cell, y = GAP + (int)i / GRID_COLUMNS * grid_cell_height(set);
        picture_gray(grid, x + (cell - columns * PICTURE_SCALE) / 2, y, columns, rows,
                     set->images + mistake->image * set->pixels);
        y += rows * PICTURE_SCALE;
        picture_text(grid, x, y, cell, LINE, class_name(set, set->labels[mistake->image]), green);
        picture_text(grid, x, y + LINE, cell, LINE, class_name(set, mistake->predicted), red);
    }
}

static const char *format_grid(struct report *report)
{
    const struct dataset *set = report->set;
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "The first mistakes, in the order of the images.\n\n| image | label | predicted |\n|---:|---|---|\n");
    for (size_t i = 0; i < report->result->n_mistakes; i++) {
        const struct mistake *mistake = &report->result->mistakes[i];
        text_add(text, "| %zu | %s | %s |\n", mistake->image, class_name(set, set->labels[mistake->image]),
                 class_name(set, mistake->predicted));
    }
    return text->bytes;
}

/* The Summary. */

hs_code report_init(struct report *report, const struct dataset *set, const struct test_result *result, hs_error *err)
{
    *report = (struct report){.set = set, .result = result, .summary = hs_summary_new(NULL)};
    bool made = picture_init(&report->matrix, CELL_WIDTH * (CLASSES + 1), MARGIN + CLASSES * CELL_HEIGHT) &&
                picture_init(&report->grid, GRID_COLUMNS * grid_cell_width(set),
                             MAX_MISTAKES / GRID_COLUMNS * grid_cell_height(set));
    return made && report->summary ? HS_OK : hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the report");
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
    if ((code = add_picture(report, "mistakes/confusion", &report->matrix, err)) ||
        (code = add_picture(report, "mistakes/images", &report->grid, err)) ||
        (code = hs_summary_text(report->summary, "mistakes/confusion/table", format_matrix(report), err)) ||
        (code = hs_summary_text(report->summary, "mistakes/images/table", format_grid(report), err)))
        return code;
    report->serialized = hs_summary_serialized(report->summary);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &report->serialized);
    return hs_op_set_output(op, 0, &value, err);
}
