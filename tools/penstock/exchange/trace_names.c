/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and categories of slices.
 */
#include <stdio.h>

#include "exchange/trace_impl.h"

#define ARROW "\xE2\x86\x92"

static void name_transfer(const struct pst_span *span, char *text, size_t room)
{
    const char *what = span->op == PST_I_SEND ? "SEND" : "RECV";
    char letter = span->payload == PST_PAYLOAD_GRAD ? 'B' : 'F';

    if (span->payload >= PST_PAYLOAD_EVICT) {
        snprintf(text, room, "%s %s %u samples %u+%u", what, pst_payload_name(span->payload),
                 span->stage, span->first_sample, span->n_samples);
    } else if (span->n_samples > 0 && span->first_sample % span->n_samples == 0) {
        snprintf(text, room, "%s_%c %u" ARROW "%u mb%u", what, letter, span->stage, span->to_stage,
                 span->first_sample / span->n_samples);
    } else { /* between stages of different sizes */
        snprintf(text, room, "%s_%c %u" ARROW "%u samples %u+%u", what, letter, span->stage,
                 span->to_stage, span->first_sample, span->n_samples);
    }
}

void pst_trace_name(const struct pst_span *span, char *text, size_t room)
{
    static const char letters[] = {
        [PST_I_F] = 'F', [PST_I_B] = 'I', [PST_I_W] = 'W', [PST_I_BW] = 'B', [PST_I_R] = 'R'};

    switch (span->op) {
    case PST_I_F:
    case PST_I_B:
    case PST_I_W:
    case PST_I_BW:
    case PST_I_R:
        snprintf(text, room, "%u%c%u", span->stage, letters[span->op], span->microbatch);
        break;
    case PST_I_SEND:
    case PST_I_RECV:
        name_transfer(span, text, room);
        break;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        snprintf(text, room, "%s %u mb%u", pst_instr_name(span->op), span->stage, span->microbatch);
        break;
    case PST_I_REDUCE:
    case PST_I_STEP:
        snprintf(text, room, "%s %u", pst_instr_name(span->op), span->stage);
        break;
    case PST_I_TIE:
    case PST_I_NORM:
        snprintf(text, room, "%s", pst_instr_name(span->op));
        break;
    default:
        snprintf(text, room, "host");
        break;
    }
}

const char *pst_trace_category(const struct pst_span *span)
{
    switch (span->op) {
    case PST_I_F:
    case PST_I_B:
    case PST_I_W:
    case PST_I_BW:
    case PST_I_R:
        return pst_instr_name(span->op);
    case PST_I_SEND:
    case PST_I_RECV:
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_NORM:
        return "comm";
    case PST_I_STEP:
        return "opt";
    default:
        return "copy";
    }
}
