/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/train_output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"

static void keep_error(struct pst_train_output *output)
{
    output->broken = true;
    output->write_errno = errno == EPIPE ? 0 : errno;
}

static bool wants_lines(const struct pst_train_output *output)
{
    return output->json || output->log.fd >= 0;
}

/* One line on `out`, seen by a reader at once, and in the log. A failure ends the writing, not the
   run. */
static void write_line(struct pst_train_output *output, struct pst_json *json)
{
    char *text;

    pst_json_newline(json);
    text = pst_json_take(json);
    if (output->json && !output->broken &&
        (fputs(text, output->out) < 0 || fflush(output->out) != 0)) {
        keep_error(output);
    }
    pst_record_file_add(&output->log, text, strlen(text));
    free(text);
}

static void step_line(struct pst_train_output *output, const struct pst_step_report *report)
{
    double seconds = (double)report->result.ns / 1e9;
    struct pst_json json;
    char hex[64];

    snprintf(hex, sizeof hex, "%a", report->result.loss);
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_uint(&json, "step", report->step);
    pst_json_number(&json, "loss", report->result.loss);
    pst_json_uint(&json, "samples", report->samples);
    pst_json_real(&json, "seconds", seconds, 9);
    pst_json_figure(&json, "tokens_per_second", (double)report->tokens / seconds);
    pst_json_string(&json, "loss_hex", isnan(report->result.loss) ? NULL : hex);
    pst_json_number(&json, "grad_norm", report->result.grad_norm);
    pst_json_number(&json, "lr", report->lr);
    pst_json_figure(&json, "mfu", report->mfu);
    pst_json_uint(&json, "memory_bytes", report->peak_bytes);
    if (report->result.skipped) {
        pst_json_bool(&json, "skipped", true);
    }
    pst_json_end(&json, '}');
    write_line(output, &json);
}

/* Records a step for TensorBoard; unknown values are left out. */
static void step_event(struct pst_train_output *output, const struct pst_step_report *report)
{
    const double seconds = (double)report->result.ns / 1e9;
    struct pst_scalar scalars[] = {
        {"train/lr", report->lr},
        {"train/step_seconds", seconds},
        {"train/tokens_per_second", (double)report->tokens / seconds},
        {"train/memory_bytes", (double)report->peak_bytes},
        {"train/skipped", report->result.skipped},
        {"train/loss", report->result.loss},
        {"train/grad_norm", report->result.grad_norm},
        {"train/mfu", report->mfu},
    };
    uint32_t n = 5;

    for (uint32_t i = n; i < sizeof scalars / sizeof *scalars; i++) {
        if (!isnan(scalars[i].value)) {
            scalars[n++] = scalars[i];
        }
    }
    pst_event_file_add(&output->events, report->step, scalars, n);
}

static void tell_step(void *context, const struct pst_step_report *report)
{
    struct pst_train_output *output = context;

    output->progress.slowness = report->scale;
    pst_progress_step(&output->progress, report->step, report->result.loss, report->result.ns,
                      report->samples * output->unit.n, report->peak_bytes, pst_now_ns());
    if (wants_lines(output)) {
        step_line(output, report);
    }
    if (output->events.file.fd >= 0) {
        step_event(output, report);
    }
}

static void tell_eval(void *context, uint64_t step, double loss)
{
    struct pst_train_output *output = context;
    struct pst_json json;
    char text[96];

    snprintf(text, sizeof text, "step %llu  held-out loss %.3f", (unsigned long long)step, loss);
    pst_progress_note(&output->progress, text);
    if (output->events.file.fd >= 0) {
        pst_event_file_add(&output->events, step, &(struct pst_scalar){"eval/loss", loss}, 1);
    }
    if (!wants_lines(output)) {
        return;
    }
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "eval", true);
    pst_json_uint(&json, "step", step);
    pst_json_number(&json, "loss", loss);
    pst_json_end(&json, '}');
    write_line(output, &json);
}

static void tell_saved(void *context, const struct pst_save_report *report)
{
    struct pst_train_output *output = context;
    struct pst_json json;
    char text[96], bytes[32], time[32];

    if (report->failed == NULL) {
        snprintf(text, sizeof text, "step %llu  saved %s in %s", (unsigned long long)report->step,
                 pst_format_bytes(bytes, report->bytes), pst_format_ns(time, report->ns));
        pst_progress_note(&output->progress, text);
    }
    if (!output->json) {
        return;
    }
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "checkpoint", report->failed == NULL);
    pst_json_uint(&json, "step", report->step);
    pst_json_string(&json, "folder", report->path);
    if (report->failed == NULL) {
        pst_json_uint(&json, "bytes", report->bytes);
        pst_json_real(&json, "blocked_seconds", (double)report->blocked_ns / 1e9, 9);
        pst_json_real(&json, "seconds", (double)report->ns / 1e9, 9);
    } else {
        pst_json_string(&json, "message", report->failed->message);
    }
    pst_json_end(&json, '}');
    write_line(output, &json);
}

static void tell_resumed(void *context, const char *path, uint64_t step)
{
    struct pst_train_output *output = context;
    struct pst_json json;

    if (!output->json) {
        if (output->out != NULL) {
            pst_text_printf(output->out, "resumed  after step %llu, from %s\n",
                            (unsigned long long)step, path);
        }
        return;
    }
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "resumed", true);
    pst_json_uint(&json, "step", step);
    pst_json_string(&json, "folder", path);
    pst_json_end(&json, '}');
    write_line(output, &json);
}

static void add_seconds(struct pst_json *json, const char *key, const uint64_t *ns, uint32_t n)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_real(json, NULL, (double)ns[i] / 1e9, 9);
    }
    pst_json_end(json, ']');
}

/* Tokens per second, of the median step. */
static double rate_of(const struct pst_run_report *report)
{
    return (double)report->tokens_per_step * 1e9 / (double)report->step_ns;
}

static void add_usage(struct pst_json *json, const struct pst_run_report *report)
{
    pst_json_uint(json, "usage_steps", report->usage_steps);
    pst_json_array(json, "usage");
    for (uint32_t i = 0; i < report->n_devices; i++) {
        pst_json_object(json, NULL);
        pst_json_real(json, "busy_seconds", (double)report->usage[i].busy_ns / 1e9, 9);
        pst_json_real(json, "idle_seconds", (double)report->usage[i].idle_ns / 1e9, 9);
        pst_json_real(json, "exposed_seconds", (double)report->usage[i].exposed_ns / 1e9, 9);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void done_json(struct pst_train_output *output, const struct pst_run_report *report)
{
    struct pst_json json;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "done", true);
    pst_json_uint(&json, "steps", report->steps);
    if (report->first_step > 0) {
        pst_json_uint(&json, "first_step", report->first_step);
    }
    if (report->skipped > 0) {
        pst_json_uint(&json, "skipped_steps", report->skipped);
    }
    pst_json_number(&json, "final_loss", report->final_loss);
    pst_json_number(&json, "eval_loss", report->eval_loss);
    pst_json_bytes(&json, "peak_bytes", report->peak_bytes, report->n_devices);
    pst_json_bytes(&json, "predicted_peak_bytes", report->predicted_peak_bytes, report->n_devices);
    pst_json_real(&json, "step_seconds", (double)report->step_ns / 1e9, 9);
    pst_json_real(&json, "predicted_step_seconds", (double)report->predicted_step_ns / 1e9, 9);
    pst_json_figure(&json, "tokens_per_second", rate_of(report));
    pst_json_figure(&json, "mfu", report->mfu);
    if (report->usage != NULL) {
        add_usage(&json, report);
    }
    if (report->copy_bytes != NULL) {
        pst_json_bytes(&json, "offloaded_bytes", report->copy_bytes, report->n_devices);
        add_seconds(&json, "copy_stall_seconds", report->copy_stall_ns, report->n_devices);
    }
    pst_json_string(&json, "sample", report->sample);
    if (report->scale > 0) {
        pst_json_bool(&json, "emulated", true);
        pst_json_number(&json, "emulated_scale", report->scale);
    }
    if (report->signal != 0) {
        pst_json_int(&json, "signal", report->signal);
    }
    pst_json_end(&json, '}');
    write_line(output, &json);
}

static void print_memory(FILE *out, const struct pst_run_report *report)
{
    char reached[32], predicted[32];

    for (uint32_t i = 0; i < report->n_devices; i++) {
        fprintf(out, "%s device %u reached %s of %s predicted\n", i == 0 ? "peak    " : "        ",
                i, pst_format_bytes(reached, report->peak_bytes[i]),
                pst_format_bytes(predicted, report->predicted_peak_bytes[i]));
    }
}

static void print_usage(FILE *out, const struct pst_run_report *report)
{
    const char *title = "usage   ";

    for (uint32_t i = 0; i < report->n_devices; i++) {
        const struct pst_usage *usage = &report->usage[i];
        const double all = (double)(usage->busy_ns + usage->idle_ns) / 100;

        fprintf(out, "%s device %u busy %.1f %%, idle %.1f %%, exposed transfers %.1f %%%s\n",
                title, i, (double)usage->busy_ns / all, (double)usage->idle_ns / all,
                (double)usage->exposed_ns / all, i == 0 ? "; last steps" : "");
        title = "        ";
    }
}

static void print_copies(FILE *out, const struct pst_run_report *report)
{
    const char *title = "offload ";
    char bytes[32], stall[32];

    for (uint32_t i = 0; i < report->n_devices; i++) {
        if (report->copy_bytes[i] > 0) {
            fprintf(out, "%s device %u: %s a step to host memory and back, waited for %s\n", title,
                    i, pst_format_bytes(bytes, report->copy_bytes[i]),
                    pst_format_ns(stall, report->copy_stall_ns[i]));
            title = "        ";
        }
    }
}

static void print_sample(FILE *out, const char *sample)
{
    fputs("sample\n", out);
    pst_text_print(out, sample);
    fputc('\n', out);
}

/* That of a step without an update may be no number. */
static const char *write_loss(char ret_text[32], double loss)
{
    if (!isfinite(loss)) {
        return "not finite";
    }
    snprintf(ret_text, 32, "%.4f", loss);
    return ret_text;
}

static void print_loss(FILE *out, const struct pst_job_train *train,
                       const struct pst_run_report *report)
{
    char first[32], final[32];

    fprintf(out, "loss     %s -> %s", write_loss(first, report->first_loss),
            write_loss(final, report->final_loss));
    if (train->loss_over == PST_LOSS_OVER_TOKEN) {
        fputs(" over tokens", out);
    }
    if (train->label_smoothing > 0) {
        fprintf(out, " with label smoothing %g", train->label_smoothing);
    }
    if (train->z_loss > 0) {
        fprintf(out, " with z-loss %g", train->z_loss);
    }
    if (isfinite(report->eval_loss)) {
        fprintf(out, ", held-out %.4f", report->eval_loss);
    }
    if (report->skipped > 0) {
        fprintf(out, "; %llu steps skipped", (unsigned long long)report->skipped);
    }
    fputc('\n', out);
}

static void done_text(struct pst_train_output *output, const struct pst_run_report *report)
{
    FILE *out = output->out;
    double units = (double)output->train->batch * (double)output->unit.n;
    char time[32], step[32], predicted[32], rate[32];

    fprintf(out, "%s %llu steps in %s\n", report->signal != 0 ? "stopped after" : "trained",
            (unsigned long long)report->steps,
            pst_format_eta(time, report->total_ns / 1000000000u));
    if (report->steps == 0) {
        return;
    }
    if (report->scale > 0) {
        fprintf(out,
                "emulated nothing was computed, so there is no loss; wall time is %.6g times "
                "that below\n",
                report->scale);
    } else {
        print_loss(out, output->train, report);
    }
    fprintf(out, "step     %s, %s predicted; %s %s/s", pst_format_ns(step, report->step_ns),
            pst_format_ns(predicted, report->predicted_step_ns),
            pst_format_count(rate, units * 1e9 / (double)report->step_ns), output->unit.name);
    if (!isnan(report->mfu)) {
        fprintf(out, ", MFU %.1f %%", 100 * report->mfu);
    }
    fputc('\n', out);
    print_memory(out, report);
    if (report->usage != NULL) {
        print_usage(out, report);
    }
    if (report->copy_bytes != NULL) {
        print_copies(out, report);
    }
    if (report->sample != NULL) {
        print_sample(out, report->sample);
    }
}

static void tell_done(void *context, const struct pst_run_report *report)
{
    struct pst_train_output *output = context;

    pst_progress_clear(&output->progress);
    if (wants_lines(output)) {
        done_json(output, report);
    }
    if (output->out != NULL && !output->json) {
        done_text(output, report);
        if (fflush(output->out) != 0) {
            keep_error(output);
        }
    }
}

void pst_train_output_init(struct pst_train_output *output, const struct pst_job *job, bool json,
                           FILE *out, FILE *progress)
{
    *output = (struct pst_train_output){.json = json && out != NULL,
                                        .out = out,
                                        .train = &job->train,
                                        .broken = out == NULL,
                                        .log = {.fd = -1},
                                        .events = {.file = {.fd = -1}}};
    pst_progress_init(&output->progress, progress, (uint64_t)job->training->loop.steps,
                      (uint64_t)job->training->output.log_every);
}

pst_status pst_train_output_open(struct pst_train_output *output, const struct pst_job *job,
                                 struct pst_error *err)
{
    pst_status status = PST_OK;

    if (job->training->output.log[0] != '\0') {
        status = pst_record_file_open(&output->log, job->training->output.log, err);
    }
    if (status == PST_OK && job->training->output.tensorboard[0] != '\0') {
        status = pst_event_file_open(&output->events, job->training->output.tensorboard, err);
    }
    return status;
}

void pst_train_output_begin(struct pst_train_output *output, const struct pst_session *session)
{
    struct pst_json json;

    output->unit = pst_sample_unit_of(session->graph);
    output->progress.unit = output->unit.name;
    if (output->log.fd < 0) {
        return;
    }
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_bool(&json, "run", true);
    pst_json_uint(&json, "unix_time", (uint64_t)time(NULL));
    pst_json_string(&json, "version", PENSTOCK_VERSION);
    pst_json_string(&json, "config", session->job->config->path);
    pst_json_string(&json, "model", session->graph->name);
    pst_json_uint(&json, "parameters", pst_graph_parameters(session->graph));
    pst_json_uint(&json, "devices", session->planned.plan->n_devices);
    pst_json_int(&json, "steps", session->job->training->loop.steps);
    pst_json_int(&json, "batch", session->job->train.batch);
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    pst_record_file_add(&output->log, json.text, json.length);
    pst_json_finish(&json);
}

void pst_train_output_listen(struct pst_train_output *output, struct pst_train_listener *listener)
{
    listener->context = output;
    listener->step = tell_step;
    listener->eval = tell_eval;
    listener->saved = tell_saved;
    listener->resumed = tell_resumed;
    listener->done = tell_done;
}

/* The log and the events, each of which may have lost records. */
static pst_status close_files(struct pst_train_output *output, struct pst_error *err)
{
    pst_status events = pst_event_file_close(&output->events, err);
    pst_status log = pst_record_file_close(&output->log, err);

    return log != PST_OK ? log : events;
}

pst_status pst_train_output_end(struct pst_train_output *output, pst_status status,
                                struct pst_error *err)
{
    const bool ended = status == PST_OK || strcmp(err->kind, "run.stopped") == 0;
    struct pst_error lost = {0};

    pst_progress_clear(&output->progress);
    if (close_files(output, &lost) != PST_OK && ended) {
        pst_error_hint(&lost, "%s", err->hint);
        *err = lost;
        status = lost.status;
    }
    if (output->write_errno == 0 || !ended) {
        return status;
    }
    return pst_fail(err, PST_ERR_IO, "output.write", "cannot write to standard output: %s",
                    strerror(output->write_errno));
}
