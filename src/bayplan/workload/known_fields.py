"""The fields that objects have as of Kubernetes 1.36, to tell a misspelt one from one that is not used here.

From k8s.io/api/core/v1, apps/v1 and batch/v1 (types.go).
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


POD_FIELDS = _words("apiVersion kind metadata spec status")
SPEC_FIELDS = _words(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks "
    "ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets "
    "initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
    "resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup "
    "securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
    "terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef"
)
CONTAINER_FIELDS = _words(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
METADATA_FIELDS = _words(
    "annotations clusterName creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName "
    "generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
JOB_FIELDS = _words(
    "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions failedPodsLimit managedBy "
    "manualSelector maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy selector successPolicy suspend "
    "template ttlSecondsAfterFinished"
)
CONTROLLER_FIELDS: dict[str, frozenset[str]] = {
    "Deployment": _words(
        "replicas selector template strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds "
        "rollbackTo"
    ),
    "ReplicaSet": frozenset({"replicas", "minReadySeconds", "selector", "template"}),
    "ReplicationController": frozenset({"replicas", "minReadySeconds", "selector", "template"}),
    "StatefulSet": _words(
        "replicas selector template volumeClaimTemplates serviceName podManagementPolicy updateStrategy "
        "revisionHistoryLimit minReadySeconds persistentVolumeClaimRetentionPolicy ordinals"
    ),
    "DaemonSet": _words("selector template updateStrategy minReadySeconds revisionHistoryLimit templateGeneration"),
    "Job": JOB_FIELDS,
    "CronJob": _words(
        "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit "
        "failedJobsHistoryLimit"
    ),
}
