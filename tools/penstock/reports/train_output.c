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
#include "reports/rows.h"

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
static void write_line(struct pst_train_output *output, const struct pst_row *rows,
                       const struct pst_row_of *of)
{
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    pst_rows_object(&json, NULL, rows, of);
    pst_json_newline(&json);
    text = pst_json_take(&json);
    if (output->json && !output->broken &&
        (fputs(text, output->out) < 0 || fflush(output->out) != 0)) {
        keep_error(output);
    }
    pst_record_file_add(&output->log, text, strlen(text));
    free(text);
}

/* Values of a line that no report holds. */
struct line {
    bool yes, emulated;
    const char *text;
    double rate;
    uint32_t n;
};

enum { LINE, REPORT };
#define OF_LINE(kind, member) PST_ROW_AT(kind, LINE, struct line, member)

#define OF_STEP(kind, member) PST_ROW_AT(kind, REPORT, struct pst_step_report, member)
const struct pst_row pst_step_rows[] = {
    {"step", "1 for the first", OF_STEP(NUMBER, step)},
    {"loss", "mean, with the weights before this step", OF_STEP(VALUE, result.loss)},
    {"samples", "of this step: `train.batch`", OF_STEP(NUMBER, samples)},
    {"seconds", "wall time of this step", OF_STEP(SECONDS, result.ns)},
    {"tokens_per_second", "targets per second", OF_LINE(FIGURE, rate)},
    {"loss_hex", "the loss as a C99 hexadecimal number: equal texts are equal bits",
     OF_LINE(TEXT, text)},
    {"grad_norm", "norm of all gradients together, before clipping",
     OF_STEP(VALUE, result.grad_norm)},
    {"lr", "learning rate", OF_STEP(VALUE, lr)},
    {"mfu", "model FLOPs utilization; `null` if no peak is known", OF_STEP(FIGURE, mfu)},
    {"memory_bytes", "of the device that uses most, as planned and reached",
     OF_STEP(BYTES, peak_bytes)},
    {"skipped", "`true` if a value was not finite and the update was skipped; else absent",
     OF_STEP(FLAG, result.skipped), .absent = PST_ROW_IF_ZERO},
    PST_ROWS_END,
};

static void step_line(struct pst_train_output *output, const struct pst_step_report *report)
{
    char hex[64];
    const struct line line = {.text = isnan(report->result.loss) ? NULL : hex,
                              .rate = (double)report->tokens / ((double)report->result.ns / 1e9)};

    snprintf(hex, sizeof hex, "%a", report->result.loss);
    write_line(output, pst_step_rows, PST_ROW_OF(&line, report));
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

const struct pst_row pst_eval_rows[] = {
    {"eval", "`true`", OF_LINE(FLAG, yes)},
    {"step", "that came before", PST_ROW_NUMBER, .base = REPORT},
    {"loss", "mean over the held-out data", PST_ROW_VALUE, .base = REPORT + 1},
    PST_ROWS_END,
};

static void tell_eval(void *context, uint64_t step, double loss)
{
    struct pst_train_output *output = context;
    char text[96];

    snprintf(text, sizeof text, "step %llu  held-out loss %.3f", (unsigned long long)step, loss);
    pst_progress_note(&output->progress, text);
    if (output->events.file.fd >= 0) {
        pst_event_file_add(&output->events, step, &(struct pst_scalar){"eval/loss", loss}, 1);
    }
    if (wants_lines(output)) {
        write_line(output, pst_eval_rows, PST_ROW_OF(&(struct line){.yes = true}, &step, &loss));
    }
}

#define OF_SAVED(kind, member) PST_ROW_AT(kind, REPORT, struct pst_save_report, member)
#define IF_SAVED               PST_ROW_UNLESS(IF_ZERO, LINE, struct line, yes)
const struct pst_row pst_saved_rows[] = {
    {"checkpoint", "`false`: it was not saved", OF_LINE(FLAG, yes)},
    {"step", NULL, OF_SAVED(NUMBER, step)},
    {"folder", NULL, OF_SAVED(TEXT, path)},
    {"bytes", "of all files; absent if it was not saved", OF_SAVED(BYTES, bytes), IF_SAVED},
    {"blocked_seconds", "the run was blocked; likewise", OF_SAVED(SECONDS, blocked_ns), IF_SAVED},
    {"seconds", "until it was complete; likewise", OF_SAVED(SECONDS, ns), IF_SAVED},
    {"message", "why it was not saved; else absent", OF_LINE(TEXT, text),
     .absent = PST_ROW_IF_ZERO},
    PST_ROWS_END,
};

static void tell_saved(void *context, const struct pst_save_report *report)
{
    struct pst_train_output *output = context;
    const struct line line = {.yes = report->failed == NULL,
                              .text = report->failed == NULL ? NULL : report->failed->message};
    char text[96], bytes[32], time[32];

    if (report->failed == NULL) {
        snprintf(text, sizeof text, "step %llu  saved %s in %s", (unsigned long long)report->step,
                 pst_format_bytes(bytes, report->bytes), pst_format_ns(time, report->ns));
        pst_progress_note(&output->progress, text);
    }
    if (output->json) {
        write_line(output, pst_saved_rows, PST_ROW_OF(&line, report));
    }
}

const struct pst_row pst_resumed_rows[] = {
    {"resumed", "`true`", OF_LINE(FLAG, yes)},
    {"step", "after which the run resumes", PST_ROW_NUMBER, .base = REPORT},
    {"folder", "the checkpoint", OF_LINE(TEXT, text)},
    PST_ROWS_END,
};

static void tell_resumed(void *context, const char *path, uint64_t step)
{
    struct pst_train_output *output = context;

    if (output->json) {
        write_line(output, pst_resumed_rows,
                   PST_ROW_OF(&(struct line){.yes = true, .text = path}, &step));
    } else if (output->out != NULL) {
        pst_text_printf(output->out, "resumed  after step %llu, from %s\n",
                        (unsigned long long)step, path);
    }
}

#define OF_USAGE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_usage, member)
static const struct pst_row usage_rows[] = {
    {"busy_seconds", NULL, OF_USAGE(SECONDS, busy_ns)},
    {"idle_seconds", NULL, OF_USAGE(SECONDS, idle_ns)},
    {"exposed_seconds", "the part of it with a transfer in progress, or waiting for a copy",
     OF_USAGE(SECONDS, exposed_ns)},
    PST_ROWS_END,
};

#define OF_RUN(kind, member) PST_ROW_AT(kind, REPORT, struct pst_run_report, member)
#define EACH(list)           PST_ROW_EACH(REPORT, struct pst_run_report, list, n_devices)
const struct pst_row pst_done_rows[] = {
    {"done", "`true`", OF_LINE(FLAG, yes)},
    {"steps", "number of steps trained", OF_RUN(NUMBER, steps)},
    {"first_step", "step the run resumed from; absent for a new run", OF_RUN(NUMBER, first_step),
     .absent = PST_ROW_IF_ZERO},
    {"skipped_steps", "steps whose update was skipped; absent if none", OF_RUN(NUMBER, skipped),
     .absent = PST_ROW_IF_ZERO},
    {"final_loss", "of the last step; `null` if it is not finite", OF_RUN(VALUE, final_loss)},
    {"eval_loss", "after the last update; `null` without held-out data, or after a signal",
     OF_RUN(VALUE, eval_loss)},
    {"peak_bytes", "per device: the highest byte of its memory that was written, plus one",
     PST_ROW_BYTES, EACH(peak_bytes)},
    {"predicted_peak_bytes", "per device: the plan's peak, which is what was allocated",
     PST_ROW_BYTES, EACH(predicted_peak_bytes)},
    {"step_seconds", "median over the steps; with `train.drain_every`, over means of that many",
     OF_RUN(SECONDS, step_ns)},
    {"predicted_step_seconds", "simulated, on the cores of this machine",
     OF_RUN(SECONDS, predicted_step_ns)},
    {"tokens_per_second", "of the median step", OF_LINE(FIGURE, rate)},
    {"mfu", "of the median step", OF_RUN(FIGURE, mfu)},
    {"usage_steps", "last steps that were timed; absent if a signal came before them",
     OF_RUN(NUMBER, usage_steps), PST_ROW_UNLESS(IF_ZERO, REPORT, struct pst_run_report, usage)},
    {"usage", "per device, in these steps; likewise", PST_ROW_OBJECT, EACH(usage),
     .rows = usage_rows, .absent = PST_ROW_IF_ZERO},
    {"offloaded_bytes", "per device and step, to host memory and back; absent if there are none",
     PST_ROW_BYTES, EACH(copy_bytes), .absent = PST_ROW_IF_ZERO},
    {"copy_stall_seconds", "per device and step: passes waited for copies; likewise",
     PST_ROW_SECONDS, EACH(copy_stall_ns), .absent = PST_ROW_IF_ZERO},
    {"sample", "prompt and generated text, or `null`", OF_RUN(TEXT, sample)},
    {"emulated", "`true` for emulated devices; else absent", OF_LINE(FLAG, emulated),
     .absent = PST_ROW_IF_ZERO},
    {"emulated_scale", "how many times slower than described they ran; likewise",
     OF_RUN(VALUE, scale), .absent = PST_ROW_IF_ZERO},
    {"signal", "number of the signal that ended the run; else absent", OF_LINE(COUNT, n),
     .absent = PST_ROW_IF_ZERO},
    PST_ROWS_END,
};

static void done_line(struct pst_train_output *output, const struct pst_run_report *report)
{
    const struct line line = {
        .yes = true,
        .rate = (double)report->tokens_per_step * 1e9 / (double)report->step_ns,
        .emulated = report->scale > 0,
        .n = (uint32_t)report->signal,
    };

    write_line(output, pst_done_rows, PST_ROW_OF(&line, report));
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
        done_line(output, report);
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
