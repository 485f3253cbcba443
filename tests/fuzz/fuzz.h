/* SPDX-License-Identifier: Apache-2.0
 *
 * What all targets share. A target is one file: it takes bytes as a stranger could send them to one
 * reader. libFuzzer makes such bytes; replay.c runs what is kept, in every build.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The target; for libFuzzer always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Once before the first input: what the target needs, and inputs that the program itself makes, by
   fuzz_keep. A target without either has none. */
void fuzz_begin(void);
void fuzz_keep(const void *bytes, size_t n);

/* Behind a byte that says which question they answer; replayed, they must not be refused. */
void fuzz_keep_behind(uint32_t question, const void *bytes, size_t n);

/* What a question is answered in this process, as it would come back from another, kept in the same
   way; and an answer that did, true unless it is refused. */
struct pst_apart_kind;
void fuzz_keep_answer(uint32_t question, const struct pst_apart_kind *kind, const void *job);
bool fuzz_take_answer(const uint8_t *data, size_t size, const struct pst_apart_kind *kind,
                      const void *job, void *ret_answer);

/* The path of a file with these bytes, until the next call. No disk takes part. */
const char *fuzz_file(const void *bytes, size_t n);

/* A problem file of the source tree. */
struct pst_problem *fuzz_problem(const char *name);

/* Ends the program: a finding. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Each failure says what it is, in a message and a kind. Returns st == PST_OK. */
bool fuzz_judge(pst_status st, const struct pst_error *err);

#endif
