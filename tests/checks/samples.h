/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the samples in the headers' comments use. */
#include <hooksess/hooksess.h>
#include <hooksess/testing.h>
#include <hooksess/tf1/session_manager.h>
#include <hooksess/tf1/supervisor.h>
#include <hooksess/tf1/timer.h>

#include <hooksess/cuda.h>
#include <hooksess/mpi.h>
#include <hooksess/tensorflow.h>
#include <hooksess/tensorflow_server.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HS_BEGIN_DECLS

#ifndef MPI_VERSION /* MPI's headers are not found */
enum { MPI_COMM_WORLD };
int MPI_Init(int *argc, char ***argv);
hs_mpi_group *hs_mpi_group_new(int comm, const hs_mpi_options *options, hs_error *err);
const hs_group *hs_mpi_group_get(const hs_mpi_group *group);
int hs_mpi_group_finalize(hs_mpi_group *group, const hs_outcome *outcome);
#endif

extern hs_error err, error;
extern hs_backend backend;
extern hs_graph *g, *graph;
extern hs_session *s, *session;
extern hs_raw_session *raw;
extern hs_run_context *run;
extern hs_saver *saver;
extern hs_summary *summary;
extern hs_summary_writer *writer;
extern hs_estimator_spec *spec;
extern hs_hook hook;
extern int64_t step, n_samples;
extern int32_t rank, rank_count;
extern uint64_t seed;
extern void *data, *stream;
extern const hs_memory cuda;

/* Objects of the program. */
struct model {
    float *memory, *m_memory, *device_memory, *device_loss;
    int64_t n_parameters;
};
extern struct model model;
extern struct {
    int position;
} reader, generator, my_engine, first_batch, test;

void train_step(void *model);
void compute_gradients(void *model), sum_gradients(void *model), clear_gradients(void *model), update(void *model);
void allocate_moments(struct model *model), copy_loss_to_host(struct model *model);
void save_model(void);
bool wants_another_save(void);
void run_test(const hs_env *env);
bool is_good_enough(const struct model *model);
void use(const void *data, size_t size);

hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
hs_code scale(void *user, hs_op *op, hs_error *err);
hs_code train(void *user, hs_op *op, hs_error *err);
hs_code read_batch(void *user, hs_op *op, hs_error *err);
hs_code read_ahead(void *user, hs_coordinator *coordinator, hs_error *err);
hs_code classifier(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err);
hs_code images(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err);
hs_code next_batch(void *user, const hs_feed **feeds, hs_error *err);
hs_code report(void *user, const hs_run_values *values, hs_error *err);
void my_log(void *user, hs_log_level level, const char *text);
hs_code my_find(void *self, const char *name, hs_node *node, hs_error *err);
hs_code my_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
hs_code my_run(void *session, hs_backend_call *call, hs_error *err);
hs_code my_close(void *session, hs_error *err);
extern const hs_hook_ops early_stop_ops;

HS_END_DECLS

#ifdef __cplusplus
#include <vector>
void train_step(const std::vector<float> &weights, float &loss);
#endif
