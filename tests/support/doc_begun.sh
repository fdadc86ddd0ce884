# Runs a study, `forebay study NAME …`, and stops it as Ctrl-C does once its first piece is done: figures take seconds.
env --default-signal=INT "$@" & it=$!
until find "study-$3" -name '*.npy' 2> /dev/null | grep -q . || ! kill -0 $it; do sleep 0.1; done
kill -INT $it
wait $it || [ $? = 130 ]
