/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what a plan is to be predicted from, and says so.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "measure/calibrate.h"

static void begins(void *context, const struct pst_session *session, double seconds)
{
    const struct pst_cli *cli = context;
    char text[32], time[48] = "", slices[48] = "";

    if (seconds >= 1) {
        snprintf(time, sizeof time, ", %s or more", pst_format_ns(text, (uint64_t)(seconds * 1e9)));
    }
    if (session->graph->slices > 1) {
        snprintf(slices, sizeof slices, ", in %u slices of a sequence,", session->graph->slices);
    }
    if (cli->verbosity >= 0) {
        pst_text_printf(
            stderr,
            "measuring the operators of %s%s on this machine, once%s (--no-profile skips this)\n",
            session->graph->name, slices, time);
    }
}

static void skipped(void *context, const char *why)
{
    const struct pst_cli *cli = context;

    if (cli->verbosity >= 0) {
        pst_text_printf(stderr, "not measured, so predictions use [cluster] and its defaults: %s\n",
                        why);
    }
}

static void disturbed(void *context, double share, const char *file)
{
    const struct pst_cli *cli = context;

    if (cli->verbosity >= 0) {
        pst_text_printf(stderr,
                        "other processes used %.0f %% of the processors meanwhile, so predictions "
                        "may be too long; %s%s\n",
                        100 * share,
                        file == NULL ? "the next command measures again"
                                     : "to measure again, remove ",
                        file == NULL ? "" : file);
    }
}

static void unkept(void *context, const char *why)
{
    const struct pst_cli *cli = context;

    if (cli->verbosity >= 0) {
        pst_text_printf(stderr, "measurements are not kept for later commands: %s\n", why);
    }
}

pst_status pst_cli_calibrate(const struct pst_cli *cli, struct pst_session *session,
                             uint32_t samples, struct pst_error *err)
{
    const struct pst_calibrate_listener listener = {.context = (void *)cli,
                                                    .begins = begins,
                                                    .skipped = skipped,
                                                    .disturbed = disturbed,
                                                    .unkept = unkept,
                                                    .cancelled = pst_stop_requested};

    return pst_calibrate(session, samples, &listener, err);
}
