#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spelling.sh ROOT: words have their American spelling, as in the API. "cancelled" is TensorFlow's spelling (HS_CANCELLED).
set -u
cd "$1" || exit 1
words='(initial|serial|final|normal|summar|quant|optim|vector|recogn|organ|general|special|minim|maxim|synchron|util|visual)is(e|ing|ation)'
words="$words|colour|behaviour|neighbour|favour|honour|labour|\bfor ever\b|learnt|spelt\b|signalled|labelled|modelled|travelled|\bgrey\b|\bcentre|analyse|catalogue|licence"
grep -rnIiE --exclude=spelling.sh "$words" include src tests examples docs python README.md CHANGELOG.md
[ $? = 1 ]
