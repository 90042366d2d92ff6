/* SPDX-License-Identifier: Apache-2.0 */
/* The block must write one value for TensorBoard's plugin of hyperparameters, at step 0. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

int main(void)
{
    /* BLOCK */
    int n_values = 0;
    hs_event_reader *reader = hs_event_reader_open("run", NULL, NULL);
    const hs_event *event;
    while (hs_event_reader_next(reader, &event, NULL) == HS_OK)
        for (size_t i = 0; i < event->n_values; i++)
            n_values += event->step == 0 && event->values[i].plugin.bytes == 7 &&
                        memcmp(event->values[i].plugin.data, "hparams", 7) == 0;
    hs_event_reader_close(reader);
    assert(n_values == 1);
    return 0;
}
