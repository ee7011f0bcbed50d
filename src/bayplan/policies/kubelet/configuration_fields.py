"""The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1, Kubernetes 1.36) and the type of each.

From k8s.io/kubelet/config/v1beta1 (types.go). The kubelet decodes strictly: a field of the wrong type stops it, also
one that has no bearing here, and so it is an error here too.
"""

from __future__ import annotations

from bayplan.workload.fields import Fields

_BY_TYPE = {
    "boolean": "cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach "
    "enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler enableServer "
    "enableSystemLogHandler enableSystemLogQuery failCgroupV1 failSwapOn kernelMemcgNotification "
    "localStorageCapacityIsolation makeIPTablesUtilChains mergeDefaultEvictionSettings "
    "protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault serializeImagePulls "
    "serverTLSBootstrap singleProcessOOMKill",
    "integer": "containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS evictionMaxPodGracePeriod "
    "healthzPort imageGCHighThresholdPercent imageGCLowThresholdPercent iptablesDropBit iptablesMasqueradeBit "
    "kubeAPIBurst kubeAPIQPS maxParallelImagePulls maxPods nodeLeaseDurationSeconds nodeStatusMaxImages oomScoreAdj "
    "podsPerCore port readOnlyPort registryBurst registryPullQPS",
    "long": "maxOpenFiles podPidsLimit",
    "text": "address apiVersion cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy "
    "containerLogMaxSize containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode healthzBindAddress "
    "imagePullCredentialsVerificationPolicy imageServiceEndpoint kind kubeReservedCgroup kubeletCgroups "
    "memoryManagerPolicy memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf "
    "showHiddenMetricsForVersion staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile "
    "tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy topologyManagerScope volumePluginDir "
    # Durations, whose inside (`4h0m0s`) is not looked at.
    "containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod "
    "fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency "
    "nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods "
    "streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod",
    "texts": "allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist "
    "tlsCipherSuites",
    "text map": "cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod "
    "kubeReserved qosReserved systemReserved topologyManagerPolicyOptions",
    "mapping": "authentication authorization crashLoopBackOff featureGates logging memorySwap metadata "
    "staticPodURLHeader tracing userNamespaces",
    "list": "registerWithTaints reservedMemory shutdownGracePeriodByPodPriority tlsCurvePreferences",
    "number": "memoryThrottlingFactor",
}
TYPES = {name: kind for kind, names in _BY_TYPE.items() for name in names.split()}
KNOWN = frozenset(TYPES)
_LONG_MAX = 2**63 - 1


def check_types(fields: Fields) -> None:
    """Raise `InputError` for a known field of the wrong type."""
    for name in fields.value:
        _check_type(fields, name, TYPES.get(name, ""))


def _check_type(fields: Fields, name: str, kind: str) -> None:
    if kind == "boolean":
        fields.boolean(name)
    elif kind == "integer":
        fields.integer(name)
    elif kind == "long":
        fields.integer(name, -_LONG_MAX - 1, _LONG_MAX)
    elif kind == "text":
        fields.text(name)
    elif kind == "texts":
        fields.texts(name)
    elif kind == "text map":
        fields.text_map(name)
    elif kind == "mapping":
        fields.mapping(name)
    elif kind == "list":
        fields.sequence(name)
    elif kind == "number" and not _is_number(fields.value[name]):
        raise fields.error(name, "not a number", value=fields.value[name])


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
