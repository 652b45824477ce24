"""What is watched, as data: metrics, alarms, and the dashboard's panels. CDK and the command line read the same."""
