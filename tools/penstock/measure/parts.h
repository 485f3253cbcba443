/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PST_MEASURE_PARTS_H
#define PST_MEASURE_PARTS_H

#include "session/session.h"

/* The program's parts of sessions, registered before main(). Everything that links the program gets
   them (tools/penstock/CMakeLists.txt): tests, benchmarks and fuzzers, too. */
extern const struct pst_session_parts pst_program_parts;

#endif
