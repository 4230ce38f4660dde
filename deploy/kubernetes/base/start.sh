#!/bin/sh
# Starts the broker of a pod: its number, its zone and its address come from where it runs.
set -eu
number=${POD_NAME##*-}
set -- broker --config "${SETTINGS:-/etc/moldau/server.properties}" \
    --set "node.id=$((number + 1))" \
    --set "advertised.listeners=PLAINTEXT://${POD_NAME}.moldau-brokers.${POD_NAMESPACE}.svc:9092"
zone_file=${ZONE_FILE:-/run/zone/zone}
if [ -s "$zone_file" ]; then
    set -- "$@" --set "broker.rack=$(cat "$zone_file")"
fi
exec moldau "$@"
