"""`split-ppo schema`: what editors and clusters need to know of the resource."""

import json

import click


@click.command("schema")
@click.option("--crd", is_flag=True, help="Print the CustomResourceDefinition instead.")
def command(crd: bool) -> None:
    """Print the JSON schema of a SplitPPOJob, for editors; or with --crd the CRD, for clusters.

    \b
    Examples:
      split-ppo schema > splitppojob.schema.json
      # yaml-language-server: $schema=splitppojob.schema.json      (first line of job.yaml)
      split-ppo schema --crd | kubectl apply -f -
    """
    from split_ppo.api.schema import custom_resource_definition, json_schema

    if crd:
        from split_ppo.cli.yaml_text import yaml_text

        click.echo(yaml_text(custom_resource_definition()), nl=False)
    else:
        click.echo(json.dumps(json_schema(), indent=2))
