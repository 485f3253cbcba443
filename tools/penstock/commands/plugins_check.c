/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/signals.h"
#include "commands/ask_plugin.h"
#include "commands/commands.h"
#include "commands/plugins.h"
#include "conformance/conformance.h"

static const char *const words[] = {"", "PASS", "FAIL", "SKIP"};
static const char *const colors[] = {"", "\033[32m", "\033[31m", "\033[33m"};

struct printing {
    bool json, color;
};

/* As soon as it is known: a test may take its whole time limit. */
static void print_result(void *context, const struct pst_conformance_result *result)
{
    const struct printing *printing = context;
    uint32_t o = result->outcome;

    if (!printing->json) {
        printf("%s%s%s  %-14s %s\n", printing->color ? colors[o] : "", words[o],
               printing->color ? "\033[0m" : "", result->name,
               o == PST_CONFORMANCE_PASS ? result->what : result->text);
        fflush(stdout);
    }
}

static void report_json(const char *path, const struct pst_conformance_report *report,
                        struct pst_json *json)
{
    static const char *const outcomes[] = {"", "pass", "fail", "skip"};

    pst_json_string(json, "file", path);
    pst_json_uint(json, "seed", report->seed);
    pst_json_uint(json, "failed", report->n_failed);
    pst_json_uint(json, "skipped", report->n_skipped);
    pst_json_array(json, "tests");
    for (uint32_t i = 0; i < report->n_results; i++) {
        const struct pst_conformance_result *result = &report->results[i];

        pst_json_object(json, NULL);
        pst_json_string(json, "test", result->name);
        pst_json_string(json, "what", result->what);
        pst_json_string(json, "outcome", outcomes[result->outcome]);
        if (result->outcome != PST_CONFORMANCE_PASS) {
            pst_json_string(json, "text", result->text);
        }
        pst_json_real(json, "seconds", (double)result->elapsed_ns / 1e9, 6);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static uint64_t read_seed(struct pst_cli *cli, const char *text)
{
    uint64_t number;
    char *end;

    if (text == NULL) {
        return PST_CONFORMANCE_SEED;
    }
    number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        pst_cli_usage(cli, "--seed %s is not a whole number from 0 to %llu", text,
                      (unsigned long long)UINT64_MAX);
    }
    return number;
}

/* In whole seconds, up to a day. */
static uint32_t read_limit(struct pst_cli *cli, const char *text)
{
    uint64_t seconds = (pst_cli_read_limit(cli, text, 0) + 999999999u) / 1000000000u;

    if (seconds > 86400) {
        pst_cli_usage(cli, "--time-limit %s is more than a day", text);
    }
    return (uint32_t)seconds;
}

void pst_plugins_check(struct pst_cli *cli, const struct pst_plugins_options *options,
                       const char *file)
{
    struct printing printing = {cli->json, cli->color};
    struct pst_conformance_question question = {.path = file,
                                                .only = options->only,
                                                .sets = cli->sets,
                                                .n_sets = cli->n_sets,
                                                .cancelled = pst_stop_requested,
                                                .told = print_result,
                                                .context = &printing};
    struct pst_conformance_report *report = pst_alloc(1, sizeof *report);

    question.seed = read_seed(cli, options->seed);
    question.time_limit_s = read_limit(cli, options->time_limit);
    pst_stop_grace(PST_STOP_USUAL_MS);
    pst_cli_must(cli, pst_conformance_run(&question, report, &cli->err));
    cli->code = report->n_failed == 0 ? 0 : 3;
    if (cli->json) {
        report_json(question.path, report, &cli->answer);
    } else {
        printf("%u tests, %u failed, %u skipped; seed %llu\n", report->n_results, report->n_failed,
               report->n_skipped, (unsigned long long)report->seed);
    }
    free(report);
}
