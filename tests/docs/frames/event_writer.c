/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the block must write two images and two texts, at the steps 100 and 200, into the event file of the session.
 */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

struct model {
    float weight;
    unsigned char pixels[28 * 28];
};

static void train_step(struct model *model)
{
    model->weight += 1;
}

int main(void)
{
    static struct model model;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weight", HS_FLOAT, HS_SCALAR, &model.weight);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 250))), NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);

    int n_images = 0, n_texts = 0, n_files_started = 0;
    hs_event_reader *reader = hs_event_reader_open("run", NULL, NULL);
    const hs_event *event;
    while (hs_event_reader_next(reader, &event, NULL) == HS_OK) {
        n_files_started += event->kind == HS_EVENT_FILE_VERSION;
        for (size_t i = 0; i < event->n_values; i++) {
            bool in_time = event->step == 100 || event->step == 200;
            n_images += in_time && event->values[i].kind == HS_EVENT_VALUE_IMAGE;
            n_texts += in_time && event->values[i].tag.bytes == 4 && memcmp(event->values[i].tag.data, "note", 4) == 0;
        }
    }
    hs_event_reader_close(reader);
    assert(n_images == 2 && n_texts == 2 && n_files_started == 1);
    return hs_outcome_exit_code(&outcome);
}
