/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing of orders, for those who look for it here.
 */
#include "plan/order_eval.h" /* IWYU pragma: export */
